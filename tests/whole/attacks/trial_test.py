# SPDX-License-Identifier: MIT
"""The driver's own judgement, on made-up ends: a stop is not taken for survival, nor a broken program for either."""

from __future__ import annotations

import os
import signal
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/support")]

from catalogue import AT_ONCE, ATTACKS, CRASHED, EXPECTED, EXPLOITABLE, LATE, LEVELS, OUTCOMES, UNHARMED  # noqa: E402
from page import cell, worst  # noqa: E402
from trial import BrokenTrialError, classify, collision_bits  # noqa: E402


class Judgement(unittest.TestCase):
    """What is made of a program's end."""

    def test_each_end_has_its_name(self) -> None:
        """By signal, words and report."""
        begun, gone_on = "attack\n", "attack\nafter\n"
        ends = (
            ((-signal.SIGABRT, begun, "double free"), AT_ONCE),
            ((-signal.SIGILL, begun, ""), AT_ONCE),
            ((-signal.SIGABRT, gone_on, "double free"), LATE),
            ((-signal.SIGSEGV, gone_on, ""), CRASHED),
            ((-signal.SIGSEGV, gone_on, "corrupted chunk"), LATE),
            ((None, "", ""), CRASHED),
            ((0, gone_on + "unharmed: \n", ""), UNHARMED),
            ((0, gone_on + "exploitable: two live blocks overlap\n", ""), EXPLOITABLE),
        )
        for end, outcome in ends:
            self.assertEqual(classify(*end), outcome, end)

    def test_broken_programs_are_no_outcome(self) -> None:
        """One that dies before it attacks, that says nothing at its end, that was not preloaded."""
        unloaded = "ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded"
        for end in (
            (-signal.SIGSEGV, "", ""),
            (0, "attack\nafter\n", ""),
            (3, "attack\n", ""),
            (0, "attack\n", unloaded),
        ):
            with self.assertRaises(BrokenTrialError):
                classify(*end)

    def test_the_worst_counts(self) -> None:
        """And its share is shown."""
        seen = {UNHARMED: 3, EXPLOITABLE: 1}
        self.assertEqual(worst(seen), EXPLOITABLE)
        self.assertEqual(cell(seen), "**EXPLOITABLE** (25)")
        self.assertEqual(cell({LATE: 4}), "late")

    def test_entropy_counts_pairs_that_agree(self) -> None:
        """All the same: none. Two values evenly: about one bit. All different: more than can be said."""
        self.assertEqual(collision_bits([7] * 10), 0)
        self.assertAlmostEqual(collision_bits([0, 1] * 500) or 0, 1, delta=0.01)
        self.assertIsNone(collision_bits(list(range(10))))

    def test_every_attack_has_its_program_and_is_expected_at_every_level(self) -> None:
        """No row of the table is forgotten, none is left over."""
        self.assertEqual([attack.name for attack in ATTACKS], list(EXPECTED))
        here = Path(__file__).parent
        programs = {attack.program for attack in ATTACKS} | {"next_address"}
        self.assertEqual(programs, {path.stem for path in here.glob("*.cc")})
        for outcomes in EXPECTED.values():
            self.assertEqual(len(outcomes), len(LEVELS))
            self.assertLessEqual({o for each in outcomes for o in (each if isinstance(each, tuple) else (each,))},
                                 set(OUTCOMES))  # fmt: skip


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    unittest.main()
