# SPDX-License-Identifier: MIT
#
# unittest_outcomes.py FILE NAME...: runs tests of Python's own test-suite and writes one line for each to FILE:
# outcome and name, sorted. unittest's own report cannot be compared: it holds durations, and the output of child
# processes gets in between.
"""Runs unittest names and writes their outcomes, sorted, to a file."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path


class Outcomes(unittest.TextTestResult):
    """Notes the outcome of each test beside reporting it."""

    def __init__(self, *arguments: object, **keywords: object) -> None:
        super().__init__(*arguments, **keywords)
        self.outcomes: dict[str, str] = {}

    def _note(self, test: unittest.TestCase, outcome: str) -> None:
        # A failed subtest or cleanup outweighs a success reported afterwards.
        if self.outcomes.get(test.id()) != "failed":
            self.outcomes[test.id()] = outcome

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802  (unittest's name)
        super().addSuccess(test)
        self._note(test, "ok")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self._note(test, "skipped")

    def addExpectedFailure(self, test: unittest.TestCase, err: object) -> None:  # noqa: N802
        super().addExpectedFailure(test, err)
        self._note(test, "ok")

    def addFailure(self, test: unittest.TestCase, err: object) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._note(test, "failed")

    def addError(self, test: unittest.TestCase, err: object) -> None:  # noqa: N802
        super().addError(test, err)
        self._note(test, "failed")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: object) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(test, "failed")


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:])
    result = unittest.TextTestRunner(resultclass=Outcomes, verbosity=2).run(suite)
    lines = sorted(f"{outcome} {name}\n" for name, outcome in result.outcomes.items())
    Path(sys.argv[1]).write_text("".join(lines))
