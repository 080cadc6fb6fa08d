# SPDX-License-Identifier: MIT
"""Tests of suite.py: a difference must be found, chance must not be taken for one, and an empty run proves nothing.
Tests of by_file.py: a file that does not come to its end is a failure, and costs no other file's outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import suite  # it says where the others are
from by_file import ByFile
from preload import Failed, check, main
from suite import FAILED, PASSED, SKIPPED, Outcomes, Suite, judge

PLAIN = {f"test {i}": PASSED for i in range(4)}


def suite_of(outcomes: Callable[[bool, int], Outcomes], least: int = 1) -> Suite:
    """A suite whose n-th run with or without the preload comes out as told."""
    runs = {False: 0, True: 0}

    def run(_: Path, preload: bool, _names: Sequence[str] | None) -> Outcomes:
        runs[preload] += 1
        return outcomes(preload, runs[preload])

    return Suite("none", lambda _: None, run, least, lambda _: [])


def fault_of(of: Suite) -> str:
    """What judge says, or nothing if it is content."""
    try:
        judge(of, Path())
    except Failed as fault:
        return str(fault)
    return ""


def differences_are_found(_: Path) -> None:
    """A test fails, or is not reported at all, under the preload only."""
    fails = fault_of(suite_of(lambda preload, _: PLAIN | ({"test 2": FAILED} if preload else {})))
    check(fails == "test 2 passes with glibc's malloc only", fails)
    sometimes = fault_of(suite_of(lambda preload, n: PLAIN | ({"test 2": FAILED} if preload and n != 2 else {})))
    check("test 2" in sometimes, sometimes)
    missing = fault_of(suite_of(lambda preload, _: {"test 0": PASSED} if preload else PLAIN))
    check(all(f"test {i} passes" in missing for i in (1, 2, 3)), missing)


def chance_is_none(_: Path) -> None:
    """A test fails once; or under both; or is skipped."""
    for outcomes in (
        lambda preload, n: PLAIN | ({"test 1": FAILED} if preload and n == 1 else {}),
        lambda preload, n: PLAIN | ({"test 1": FAILED} if preload or n == 2 else {}),
        lambda _, __: PLAIN | {"test 1": FAILED},
        lambda preload, _: PLAIN | ({"test 1": SKIPPED} if preload else {}),
    ):
        said = fault_of(suite_of(outcomes))
        check(said == "", said)


def empty_runs_are_noticed(_: Path) -> None:
    """Fewer tests pass than the suite has."""
    said = fault_of(suite_of(lambda _, __: PLAIN, least=5))
    check("only 4 tests passed" in said, said)


def lists_are_kept(folder: Path) -> None:
    """A listed test may fail; one that passes must not be listed; a line needs its reason."""
    suite.HERE = folder
    (folder / "none.txt").write_text("test 2 | fails | reads glibc's lists\n")
    of = [
        suite_of(lambda preload, _, bad=bad: PLAIN | ({bad: FAILED} if preload else {})) for bad in ("test 2", "test 3")
    ]
    check(fault_of(of[0]) == "", "a listed test failed")
    said = fault_of(of[1])
    check("test 3 passes with glibc's malloc only" in said and "lists test 2" in said, said)
    (folder / "none.txt").write_text("test 2 | fails |\n")
    check("no reason" in fault_of(of[0]), "a line without a reason")


def files_end_for_themselves(folder: Path) -> None:
    """A crash; a test with two outcomes; an address in a name; only the files of the tests wanted."""
    scripts = {
        "crashes": "echo passed one >>$OUTCOMES; kill -SEGV $$",
        "ends": "echo failed A at 0x7f >>$OUTCOMES; echo passed A at 0x80 >>$OUTCOMES; exit 1",
    }
    files = ByFile(lambda _: [*scripts], lambda _, file: ["sh", "-c", scripts[file]], lambda work: work, (0, 1))
    ends = {"ends": PASSED, "ends: A at 0x": FAILED}
    found = files.outcomes(folder, False, None)
    check(found == {"crashes": FAILED, "crashes: one": PASSED} | ends, f"{found}")
    found = files.outcomes(folder, False, ["ends: A at 0x"])
    check(found == ends, f"{found}")


if __name__ == "__main__":
    main(differences_are_found, chance_is_none, empty_runs_are_noticed, lists_are_kept, files_end_for_themselves)
