# SPDX-License-Identifier: MIT
#
# redis_runtest.py: redis's own test suite (`runtest`), with the programs of Debian's packages. These are linked with
# jemalloc, so jemalloc is what Freeway is compared with. Freeway is preloaded; mallctl remains jemalloc's.
# redis_shim.py runs the same with Freeway's mallctl.
#
# Not run: tests that redis tags `slow` (hours), `large-memory` (many gigabytes), and `defrag`: Debian's redis-server
# has no active defragmentation. Each unit runs in a process and a folder of its own, WORKERS at a time: most of them
# wait for clocks.
"""redis's own tests, on jemalloc and on Freeway."""

from __future__ import annotations

import functools
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from suite import FAILED, PASSED, SKIPPED, Outcomes, Suite
from suite import run as run_suite  # it says where the others are

# isort: split
from debian_source import fetch
from emulated import require_tools
from preload import Failed, need, run, succeed
from shim import REFERENCE, with_variables

WORKERS = 4
PROGRAMS = {
    "redis-server": "redis-server",
    "redis-cli": "redis-tools",
    "redis-benchmark": "redis-tools",
    "redis-check-aof": "redis-tools",
    "redis-check-rdb": "redis-tools",
}
PORTS = 900  # of each worker; redis takes others, 10000 above, for clusters
TAGS = "-slow -defrag"
LINE = re.compile(r"^\[(ok|err|ignore|skip)\]: (.*?)(?: \(\d+ ms\)| in tests/\S+\.tcl)?$", re.MULTILINE)
# Their tests' names have numbers that are drawn, or are as many as time allows: all of a name but for these are one.
DRAWN = {"integration/psync2", "integration/psync2-reg"}
VERDICTS = {"ok": PASSED, "err": FAILED, "ignore": SKIPPED, "skip": SKIPPED}


def build(work: Path) -> None:
    """A folder for each worker, with the tests and the programs where the tests look for them."""
    require_tools("tclsh")
    source = fetch(work, "redis", kept=("tests", "redis.conf", "sentinel.conf"))
    for number in range(WORKERS):
        place = work / f"worker{number}"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(source, place)
        (place / "src").mkdir()
        for program, package in PROGRAMS.items():
            (place / "src" / program).symlink_to(need(program, package))


def units(work: Path) -> list[str]:
    """All units, as the tests' driver has them."""
    return succeed(["tclsh", "tests/test_helper.tcl", "--list-tests"], preload=False, cwd=work / "worker0").out.split()


def outcomes_of(unit: str, place: Path, port: int, preload: bool, variables: dict[str, str]) -> Outcomes:
    """Runs a unit; one that never ends has no tests that passed."""
    argv = ["tclsh", "tests/test_helper.tcl", "--single", unit, "--clients", "1", "--durable", "--tags", TAGS]
    argv += ["--baseport", str(port), "--portcount", str(PORTS), "--timeout", "600"]
    try:
        said = run(argv, preload=preload, cwd=place, env=variables, timeout=1800).out
    except Failed:
        return {}
    found: Outcomes = {}
    repeated: Counter[str] = Counter()
    for verdict, test in LINE.findall(said.split("\n                   The End\n")[0]):
        if unit in DRAWN:
            name = f"{unit}: {re.sub(r'[0-9]+', 'N', test)}"
        else:
            repeated[test] += 1
            name = f"{unit}: {test}" + (f" #{repeated[test]}" if repeated[test] > 1 else "")
        found[name] = FAILED if found.get(name) == FAILED else VERDICTS[verdict]
    return found


def outcomes(
    first_port: int, variables: Callable[[], dict[str, str]], work: Path, preload: bool, names: Sequence[str] | None
) -> Outcomes:
    """All units, or those that have the tests `names`."""
    wanted = units(work) if names is None else sorted({name.split(": ")[0] for name in names})
    free: SimpleQueue[int] = SimpleQueue()
    for number in range(WORKERS):
        free.put(number)

    def run_unit(unit: str) -> Outcomes:
        number = free.get()
        port = first_port + number * (PORTS + 100)
        try:
            return outcomes_of(unit, work / f"worker{number}", port, preload, variables() if preload else {})
        finally:
            free.put(number)

    found: Outcomes = {}
    with ThreadPoolExecutor(WORKERS) as workers:
        for each in workers.map(run_unit, wanted):
            found |= each
    return found


def suite_of(name: str, first_port: int, variables: Callable[[], dict[str, str]]) -> Suite:
    """The suite, whose programs get these variables under Freeway."""

    def proves(_: Path) -> list[str]:
        return with_variables(variables(), [need("redis-server", "redis-server"), "--version"])

    return Suite(name, build, functools.partial(outcomes, first_port, variables), 2700, proves, REFERENCE)


if __name__ == "__main__":
    run_suite(suite_of("redis", 11111, dict))
