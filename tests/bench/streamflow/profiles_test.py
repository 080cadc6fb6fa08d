# SPDX-License-Identifier: MIT
#
# profiles_test.py: what the programs ask of malloc against Table 1 of the Streamflow paper, on 8 threads. Counts are
# exact, so runs at a part of the work stand for all of it. Where a figure differs from the paper's, its tolerance says
# by how much and why. Shares of remote frees depend on which thread steals what; their bounds are wide, but a program
# in which everything or nothing is freed remotely is outside them.
#
# Some parameters were fitted to this table (the programs' heads say which): where they were, agreement shows that the
# allocator sees what Table 1 prints, not that the program is the paper's.
"""Profiles against Table 1."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "papers"))
import programs


class Table1(unittest.TestCase):
    """Objects of 2 KiB and more; smaller ones; their mean size; remote frees."""

    def close(self, found: float, printed: float, percent: float) -> None:
        """Within this many per cent."""
        self.assertAlmostEqual(found / printed, 1, delta=percent / 100)

    def test_knary(self) -> None:
        """16; 61 M; 40 B; 0.00056 %. 12 levels of 5: the number is exact (work_stealing_test.cc)."""
        found = programs.run("knary --threads 8 --shrink 100 --profile")
        self.assertEqual(found["objects_large"], 16)
        self.assertEqual(found["objects_small"], (5**9 - 1) / 4)  # three levels less
        self.assertEqual(found["mean_size"], 40)
        self.assertEqual(found["frees"], found["objects_small"] + found["objects_large"])
        # A steal makes a few; there are no more of them in a larger tree. 0.0003 % of all nodes.
        self.assertLess(found["remote_percent"], 0.1)

    def test_barnes(self) -> None:
        """17; 2.33 M; 30 B; 0.79 %."""
        found = programs.run("barnes --threads 8 --shrink 8 --profile")
        self.assertEqual(found["objects_large"], 17)
        self.close(8 * found["objects_small"], 2.33e6, 5)
        # 16 and 56 bytes for leaves and cells: the paper's ratio of the two is not known.
        self.close(found["mean_size"], 30, 10)
        self.assertEqual(found["frees"], found["objects_small"] + found["objects_large"])
        # Mostly of bodies that moved to another share. 0.8 % here and at full size.
        self.assertGreater(found["remote_percent"], 0.4)
        self.assertLess(found["remote_percent"], 3)

    def test_mpcdm(self) -> None:
        """338; 30 M; 35 B; 1.4 %."""
        found = programs.run("mpcdm --threads 8 --shrink 20 --profile")
        # Three blocks for a triangle of the finished mesh, as in the paper; 3.3 here, the quality bounds differ.
        self.close(20 * found["objects_small"], 30e6, 12)
        self.close(found["mean_size"], 35, 3)
        # Memory only grows: about half of the blocks are freed at all.
        self.assertLess(found["frees"], 0.6 * found["objects_small"])
        # Messages between neighbours that are refined by different threads. 1.4 % here, 1.6 % at full size.
        self.assertGreater(found["remote_percent"], 0.2)
        self.assertLess(found["remote_percent"], 4)
        # Only those of the scheduler: tables that grow are mapped here.
        self.assertEqual(found["objects_large"], 16)

    def test_parser(self) -> None:
        """79,760; 787 M; 14 B; one thread."""
        shrink = 100
        found = programs.run(f"parser_like --shrink {shrink} --profile")
        # Sentences differ so much in length that a hundredth of them is no exact hundredth of the work (all of them are
        # 2.5 % more objects than printed).
        self.close(shrink * found["objects_small"], 787e6, 15)
        self.close(shrink * found["objects_large"], 79_760, 10)
        self.close(found["mean_size"], 14, 5)
        self.assertEqual(found["remote_percent"], 0)
        self.assertEqual(found["frees"], found["objects_small"] + found["objects_large"])


if __name__ == "__main__":
    unittest.main()
