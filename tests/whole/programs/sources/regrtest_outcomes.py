# SPDX-License-Identifier: MIT
#
# regrtest_outcomes.py OPTION... MODULE: CPython's `python3 -m test` with these arguments, in this process. The outcome
# of each test is appended to the file that the variable OUTCOMES names as soon as it is known: `passed`, `failed` or
# `skipped`, and the name. regrtest's own report for machines leaves out tests of which only a part failed.
"""CPython's regrtest; notes each test's outcome."""

from __future__ import annotations

import os
import unittest
from pathlib import Path

from unittest_outcomes import Outcomes

WORDS = {"ok": "passed"}


def run() -> None:
    """Runs regrtest; does not return."""
    from test.libregrtest import main
    from test.support import testresult

    report = Path(os.environ["OUTCOMES"])

    class Noted(Outcomes, testresult.RegressionTestResult):
        """regrtest's own result that notes outcomes."""

        def _note(self, test: unittest.TestCase, outcome: str) -> None:
            name = str(test.id() if callable(test.id) else test).replace("\n", " ")
            with report.open("a") as file:
                file.write(f"{WORDS.get(outcome, outcome)} {name}\n")

    testresult.RegressionTestResult = Noted
    main()


if __name__ == "__main__":  # multiprocessing's children import this file
    run()
