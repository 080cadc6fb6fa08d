# SPDX-License-Identifier: MIT
"""Tests of bench/shared: each heap does the work, a recovery finds its one dead process and loses nothing, ratios are
taken within repeats."""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/shared")]

import run  # noqa: E402

run.WORKLOADS = Path(os.environ["FREEWAY_BUILD_DIR"]) / "bench/workloads"


class Shared(unittest.TestCase):
    def table(self, *arguments: str) -> list[list[str]]:
        """The cells that run.py prints, without the table's head."""
        with mock.patch.object(sys, "argv", ["run.py", *arguments]), mock.patch("builtins.print") as printed:
            run.main()
        lines = printed.call_args_list[0].args[0].splitlines()[2:]
        return [line.strip("| ").split(" | ") for line in lines]

    def test_each_heap_does_the_work(self) -> None:
        rows = self.table("throughput", "--repeat", "1", "--operations", "4000", "--processes", "1", "3")
        self.assertEqual([row[:2] for row in rows], [[work, n] for work in run.WORKS for n in "13"])
        heaps = [name for name in run.HEAPS if (run.WORKLOADS / f"shared_{name}").exists()]
        self.assertIn("freeway", heaps)
        for row in rows:
            self.assertEqual(len(row), 2 + len(heaps) + len(heaps) - 1)

    def test_recovery_loses_nothing(self) -> None:
        rows = self.table("recovery", "--mib", "1", "4", "--deaths", "3")
        self.assertEqual([(row[0], row[-1]) for row in rows], [("1", "0"), ("4", "0")])
        self.assertLess(int(rows[0][1]), int(rows[1][1]))

    def test_ratios_are_of_the_same_repeat(self) -> None:
        self.assertEqual(run.ratio([2.0, 20.0, 6.0], [1.0, 10.0, 2.0]), "2.00 (2.00\N{EN DASH}3.00)")


if __name__ == "__main__":
    unittest.main()
