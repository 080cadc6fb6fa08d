# SPDX-License-Identifier: MIT
#
# suite.py: the test suite of another project, run with glibc's malloc and with Freeway preloaded. Every test that
# passes with glibc's must pass with Freeway's, but for those that NAME.txt lists with a reason. Only differences are
# printed.
#
# Suites have tests that fail now and then. One that passed with glibc's malloc alone is run again under both, ROUNDS
# times: if it never fails under Freeway again, or fails under glibc's too, it was chance, and is printed as such.
"""Runs a suite under glibc's malloc and under Freeway, and judges the differences."""

from __future__ import annotations

import fcntl
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "machines"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests/whole/programs/
from emulated import MissingError, folder
from preload import Skipped, check, library, main, prove_preload
from proof import proof

HERE = Path(__file__).resolve().parent
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
ROUNDS = 3
VERDICTS = ("fails", "left out")
Outcomes = dict[str, str]  # test -> PASSED, FAILED or SKIPPED


@dataclass(frozen=True)
class Suite:
    """What a suite must say of itself.

    build: fetches and makes what is needed in a folder that stays; MissingError skips the test.
    outcomes: runs the suite there (preload, names of tests): all of it without names, else at least these tests.
    least: so many tests pass with glibc's malloc, or the suite does not run as it wants to.
    proves: a command of the suite in which the preload must take hold.
    reference: whose malloc it is without the preload."""

    name: str
    build: Callable[[Path], None]
    outcomes: Callable[[Path, bool, Sequence[str] | None], Outcomes]
    least: int
    proves: Callable[[Path], Sequence[str]]
    reference: str = "glibc's"


def listed(name: str) -> dict[str, dict[str, str]]:
    """Verdict -> test -> reason, of NAME.txt: `test | fails | reason`."""
    table: dict[str, dict[str, str]] = {verdict: {} for verdict in VERDICTS}
    file = HERE / f"{name}.txt"
    for line in file.read_text().splitlines() if file.exists() else ():
        if line and not line.startswith("#"):
            test, verdict, reason = (cell.strip() for cell in line.rsplit("|", 2))
            check(verdict in VERDICTS and bool(reason), f"{file.name}: {line}: no verdict or no reason")
            table[verdict][test] = reason
    return table


def worse(plain: Outcomes, ours: Outcomes) -> list[str]:
    """The tests that passed with glibc's malloc, and failed, or were never reported, with Freeway's."""
    return sorted(name for name, outcome in plain.items() if outcome == PASSED and ours.get(name, FAILED) == FAILED)


def by_chance(suite: Suite, work: Path, names: list[str]) -> list[str]:
    """Those of `names` that do not fail again under Freeway, or fail with glibc's malloc as well."""
    failed = {preload: Counter[str]() for preload in (False, True)}
    for _ in range(ROUNDS if names else 0):
        for preload, count in failed.items():
            again = suite.outcomes(work, preload, names)
            count.update(name for name in names if again.get(name, FAILED) == FAILED)
    for name in names:
        under = f"{failed[True][name]} times of {ROUNDS}, {failed[False][name]} with {suite.reference}"
        print(f"  {name}: failed again {under}")
    return [name for name in names if failed[True][name] == 0 or failed[False][name] != 0]


def count_of(outcomes: Outcomes) -> str:
    """A run in a line."""
    counted = Counter(outcomes.values())
    return ", ".join(f"{counted[each]} {each}" for each in (PASSED, FAILED, SKIPPED))


def judge(suite: Suite, work: Path) -> int:
    """Runs the suite under both; Failed with the differences that have no reason. How many tests passed."""
    runs: dict[bool, Outcomes] = {}
    for preload in (False, True):
        began = time.monotonic()
        runs[preload] = suite.outcomes(work, preload, None)
        who = library().name if preload else f"{suite.reference} malloc"
        print(f"{suite.name}, {who}: {count_of(runs[preload])} ({time.monotonic() - began:.0f} s)", flush=True)
    plain, ours = runs[False], runs[True]
    passed = Counter(plain.values())[PASSED]
    check(passed >= suite.least, f"only {passed} tests passed with {suite.reference} malloc, not {suite.least}")
    known = listed(suite.name)["fails"]
    found = worse(plain, ours)
    surprising = [name for name in found if name not in known]
    differences = sorted(set(surprising) - set(by_chance(suite, work, surprising)))
    faults = [f"{name} passes with {suite.reference} malloc only" for name in differences]
    faults += [f"{suite.name}.txt lists {name}, which passes, or is none" for name in sorted(set(known) - set(found))]
    if skipped := sorted(name for name in ours if plain.get(name) == PASSED and ours[name] == SKIPPED):
        print(f"  skipped under Freeway only: {skipped}")
    if better := worse(ours, plain):
        print(f"  passed under Freeway only: {better}")
    check(not faults, "\n".join(faults))
    return Counter(ours.values())[PASSED]


def run(suite: Suite) -> None:
    """What each suite's file ends with."""

    def test(_: Path) -> None:
        work = folder(f"suites/{suite.name}")
        with (work / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # both modes' tests want it
            try:
                suite.build(work)
            except MissingError as reason:
                raise Skipped(str(reason)) from None
            prove_preload(suite.proves(work))
            proof("programs", f"the test suite of {suite.name}", "tests", judge(suite, work))

    test.__name__ = suite.name
    main(test)
