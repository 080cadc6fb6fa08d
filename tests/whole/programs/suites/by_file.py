# SPDX-License-Identifier: MIT
#
# by_file.py: suites whose test files each run in a process of their own. A file that crashes or hangs costs its own
# outcomes only, and is an outcome itself: FILE is passed if its process came to its end, whatever its tests said.
# A test is called `FILE: TEST`; tests are run again by their files.
"""Runs a suite file by file, a few at a time."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import suite  # noqa: F401  (it says where the others are)
from preload import Failed, run
from suite import FAILED, PASSED, Outcomes

WORKERS = 2
TIMEOUT_S = 900  # of a file
ADDRESS = re.compile(r"0x[0-9a-f]+")  # in a name: it differs from run to run


@dataclass(frozen=True)
class ByFile:
    """A suite's files and how one is run.

    files: all files of the suite.
    command: runs a file. Its process appends lines `OUTCOME TEST` to the file that the variable OUTCOMES names.
    folder: where it runs.
    ends: exit statuses of a run that came to its end."""

    files: Callable[[Path], list[str]]
    command: Callable[[Path, str], Sequence[str]]
    folder: Callable[[Path], Path]
    ends: tuple[int, ...]
    env: dict[str, str] = field(default_factory=dict)

    def run_file(self, work: Path, preload: bool, file: str) -> Outcomes:
        """The outcomes of a file's tests, the worst of those reported for each, and the file's own."""
        with tempfile.TemporaryDirectory(prefix="freeway-suite-", ignore_cleanup_errors=True) as home:
            report = Path(home) / "outcomes"
            report.touch()
            env = {**self.env, "HOME": home, "TMPDIR": home, "OUTCOMES": str(report)}
            try:
                ended = run(
                    self.command(work, file), preload=preload, cwd=self.folder(work), env=env, timeout=TIMEOUT_S
                )
                verdict = PASSED if ended.status in self.ends else FAILED
                said = f"{ended.out}\n{ended.err}\nexit status {ended.status}\n"
            except Failed as fault:
                verdict, said = FAILED, str(fault)
            outcomes = {file: verdict}
            for line in report.read_text(errors="replace").splitlines():
                outcome, test = line.split(" ", 1)
                name = f"{file}: {ADDRESS.sub('0x', test)}"
                if outcomes.get(name) != FAILED:
                    outcomes[name] = outcome
        log = work / "logs" / ("preload" if preload else "plain") / f"{file}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(said, errors="replace")
        return outcomes

    def outcomes(self, work: Path, preload: bool, names: Sequence[str] | None) -> Outcomes:
        """Suite.outcomes: all files, or those that hold these tests."""
        files = self.files(work) if names is None else sorted({name.split(": ", 1)[0] for name in names})
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # a background job's shell has it ignored, tests use it
        everything: Outcomes = {}
        with ThreadPoolExecutor(WORKERS) as workers:
            for outcomes in workers.map(lambda file: self.run_file(work, preload, file), files):
                everything |= outcomes
        return everything
