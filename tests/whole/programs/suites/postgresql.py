# SPDX-License-Identifier: MIT
#
# PostgreSQL's regression tests in parallel, its isolation tests, and those of PL/pgSQL: 345 tests, each a script of SQL
# whose output is compared with what is expected. Each of the three makes a server of its own; server and clients have
# the preload. The server asks malloc for blocks of doubling size, from 1 KiB to 8 MiB, and forks for each connection.
#
# Left out: tests of contrib's modules and those in Perl, which try servers rather than memory.
"""PostgreSQL's own tests under Freeway."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from suite import FAILED, PASSED, SKIPPED, Outcomes, Suite, run  # isort: skip  (it says where the others are)
import preload
from postgresql_made import TESTS, as_user, build, driver, folder_of_user

TIMEOUT_S = 1500


@dataclass(frozen=True)
class Part:
    """A folder of tests."""

    name: str
    folder: str
    driver: str
    schedule: str  # a file, or nothing: all tests one after the other


PARTS = (
    Part("regress", TESTS[0], "pg_regress", "parallel_schedule"),
    Part("isolation", TESTS[1], "pg_isolation_regress", "isolation_schedule"),
    Part("plpgsql", TESTS[2], "pg_regress", ""),
)
VERDICTS = {"ok": PASSED, "FAILED": FAILED, "failed (ignored)": SKIPPED}
LINE = re.compile(rf"^(?:test |     )(\S+) +\.\.\. ({'|'.join(map(re.escape, VERDICTS))})", re.MULTILINE)


def command(work: Path, part: Part, place: Path) -> list[str]:
    """What runs a part's tests, in a server that it makes itself."""
    tests = work / "source" / part.folder
    options = [f"--inputdir={tests}", "--outputdir=.", f"--bindir={work / 'bin'}", f"--dlpath={work / 'modules'}"]
    options += [f"--temp-instance={place / 'instance'}", "--no-locale", "--max-concurrent-tests=20"]
    if part.schedule:
        return as_user(driver(work, part.driver), *options, f"--schedule={tests / part.schedule}")
    return as_user(driver(work, part.driver), *options, *sorted(file.stem for file in (tests / "sql").glob("*.sql")))


def server_of(place: Path) -> int:
    """The server in this folder, or 0. initdb's own one, before it, writes a negative number."""
    try:
        first = (place / "instance/data/postmaster.pid").read_text().split("\n")[0]
    except FileNotFoundError:
        return 0
    return int(first) if first.isdecimal() else 0


def require_taken_hold(place: Path, done: Future[preload.Outcome]) -> None:
    """The server has the library mapped; all its processes are its forks."""
    while (server := server_of(place)) == 0 and not done.done():
        time.sleep(0.05)
    preload.check(server != 0, f"no server has begun: {done.result().out[-2000:] if done.done() else ''}")
    preload.check(preload.in_maps(server), f"server {server} does not have the library mapped")


def outcomes_of(work: Path, part: Part, preloaded: bool) -> Outcomes:
    """Runs a part. Differences from the expected output stay in its folder, in regression.diffs."""
    place = folder_of_user(work / "runs" / f"{part.name}-{'freeway' if preloaded else 'glibc'}")
    with ThreadPoolExecutor(1) as worker:
        argv = command(work, part, place)
        done = worker.submit(preload.run, argv, preload=preloaded, cwd=place, timeout=TIMEOUT_S)
        if preloaded:
            require_taken_hold(place, done)
        said = done.result()
    found = {f"{part.name}: {name}": VERDICTS[verdict] for name, verdict in LINE.findall(said.out)}
    preload.check(bool(found), f"{part.name}: no test ran: {(said.out + said.err)[-2000:]}")
    return found


def outcomes(work: Path, preloaded: bool, names: Sequence[str] | None) -> Outcomes:
    """Tests need those before them; a part is run as a whole."""
    wanted = [part for part in PARTS if names is None or any(name.startswith(f"{part.name}: ") for name in names)]
    together: Outcomes = {}
    for part in wanted:
        together |= outcomes_of(work, part, preloaded)
    return together


def proves(work: Path) -> list[str]:
    """The server's program."""
    return [str(work / "bin/postgres"), "--version"]


if __name__ == "__main__":
    run(Suite("postgresql", build, outcomes, 340, proves))
