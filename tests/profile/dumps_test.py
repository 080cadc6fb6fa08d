# SPDX-License-Identifier: MIT
"""What FREEWAY_PROFILE asks for happens: dumps at exit, on a signal, each time so much was allocated; files named so.

dumps_test.py PROGRAM: settings_program.c; FREEWAY_LIB is preloaded.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1)
LIBRARY = os.environ["FREEWAY_LIB"]


class Dumps(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def profile(self, setting: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "LD_PRELOAD": LIBRARY, "FREEWAY_PROFILE": setting}
        return subprocess.run(
            [PROGRAM, *arguments], env=environment, cwd=self.folder, capture_output=True, text=True, check=True
        )

    def dumps(self) -> list[Path]:
        return sorted(self.folder.glob("*.heap"), key=lambda path: int(path.name.split(".")[-2]))

    def live(self, dump: Path) -> int:
        """Live blocks of 1000 bytes."""
        lines = re.findall(r"^(\d+): (\d+) \[", dump.read_text(), re.MULTILINE)
        return sum(int(blocks) for blocks, size in lines if blocks != "0" and int(size) == 1000 * int(blocks))

    def test_at_exit_if_nothing_else_is_said(self) -> None:
        self.assertEqual(self.profile("1", "50000").stderr, "")
        (dump,) = self.dumps()
        self.assertRegex(dump.name, r"^freeway\.\d+\.1\.heap$")
        self.assertEqual(self.live(dump), 50)

    def test_where_the_prefix_says(self) -> None:
        self.profile(f"1,prefix={self.folder}/a.b", "1000")
        (dump,) = self.dumps()
        self.assertRegex(dump.name, r"^a\.b\.\d+\.1\.heap$")

    def test_on_each_signal_and_then_not_at_exit(self) -> None:
        self.profile("1,dump=signal:USR1", "5000", "raise", "5000", "raise", "5000")
        self.assertEqual([self.live(dump) for dump in self.dumps()], [5, 10])

    def test_on_signals_and_at_exit(self) -> None:
        self.profile("1,dump=signal:USR1,dump=exit", "5000", "raise", "5000")
        self.assertEqual([self.live(dump) for dump in self.dumps()], [5, 10])

    def test_handler_of_the_program_goes_first(self) -> None:
        self.assertEqual(self.profile("1,dump=signal:USR1", "handler", "raise").stdout, "own handler\n")
        self.assertEqual(self.dumps(), [])

    def test_each_time_so_much_was_allocated(self) -> None:
        self.profile("1,dump=every:100k", "1000000")
        lives = [self.live(dump) for dump in self.dumps()]
        self.assertEqual(len(lives), 9, lives)
        for earlier, later in itertools.pairwise(lives):
            self.assertEqual(later - earlier, 103, "102,400 bytes in blocks of 1000")

    def at_peak(self, dump: Path) -> list[tuple[int, int]]:
        """Of each stack with blocks of 1000 bytes: how many were allocated, and how many were live at the peak."""
        lines = re.findall(r"\[(\d+): (\d+)\] @.*\n#@ (.*)", dump.read_text())
        return sorted(
            (int(blocks), int((re.search(r"peak_bytes=(\d+)", labels) or ["", "0"])[1]) // 1000)
            for blocks, size, labels in lines
            if int(size) == 1000 * int(blocks) and int(blocks) > 2
        )

    def test_what_was_live_at_the_peak(self) -> None:
        self.profile("1,dump=peak", "5000", "burst", "50000", "7000", "burst", "30000")
        (dump,) = self.dumps()
        self.assertEqual(self.live(dump), 12)
        self.assertEqual(self.at_peak(dump), [(12, 5), (80, 50)])
        self.assertRegex(dump.read_text(), r"# pid=.* peak_ms=\d+\n")

    def test_peak_of_a_later_burst(self) -> None:
        self.profile("1,dump=peak", "burst", "30000", "5000", "burst", "50000", "7000")
        self.assertEqual(self.at_peak(self.dumps()[0]), [(12, 5), (80, 50)])

    def test_no_peak_where_none_was_asked_for(self) -> None:
        self.profile("1", "5000")
        self.assertNotIn("peak", self.dumps()[0].read_text())

    def test_a_forked_child_has_files_of_its_own(self) -> None:
        self.profile("1", "3000", "fork")
        names = {dump.name for dump in self.dumps()}
        self.assertEqual(len(names), 2)

    def test_none_where_the_program_leaves_without_exit(self) -> None:
        self.profile("1", "1000", "leave")
        self.assertEqual(self.dumps(), [])

    def test_what_is_not_understood_is_named_and_ignored(self) -> None:
        said = self.profile("512k,dump=never", "1000").stderr
        self.assertIn("FREEWAY_PROFILE=512k,dump=never is not understood", said)
        self.assertEqual(self.dumps(), [])

    def test_place_that_cannot_be_written_is_named(self) -> None:
        self.assertIn("cannot write the profile to /nowhere/x", self.profile("1,prefix=/nowhere/x", "1000").stderr)


if __name__ == "__main__":
    unittest.main()
