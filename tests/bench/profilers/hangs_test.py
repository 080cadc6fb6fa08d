# SPDX-License-Identifier: MIT
"""Tests of bench/profilers: a run in which one thread stands still is a hang, also while the others go on; and storms
under Freeway with a profile end."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/profilers")]

import hangs  # noqa: E402
import run  # noqa: E402
from subjects import WITH  # noqa: E402


class Watching(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="freeway-storm-")
        self.addCleanup(folder.cleanup)
        self.counters = Path(folder.name) / "counters"
        self.watch = hangs.Watch()

    def looks(self, *moments: tuple[float, list[int]]) -> list[bool]:
        """What the watch says when it sees these counters at these times."""
        said = []
        for now, values in moments:
            self.counters.write_bytes(b"".join(v.to_bytes(hangs.COUNTER_BYTES, "little") for v in values))
            with mock.patch("time.monotonic", return_value=now):
                said.append(self.watch.stands_still(self.counters))
        return said

    def test_thread_that_stands_still_beside_others_that_move(self) -> None:
        late = hangs.PATIENCE_S + 1
        self.assertEqual(self.looks((0, [1, 1]), (late / 2, [2, 1]), (late, [3, 1])), [False, False, True])

    def test_threads_that_move_slowly(self) -> None:
        soon = hangs.PATIENCE_S - 1
        self.assertEqual(self.looks((0, [1, 1]), (soon, [2, 1]), (soon + 1, [2, 2]), (2 * soon, [3, 2])), [False] * 4)

    def test_program_that_never_counts(self) -> None:
        with mock.patch("time.monotonic", return_value=0.0):
            self.assertFalse(self.watch.stands_still(self.counters))
        with mock.patch("time.monotonic", return_value=hangs.PATIENCE_S + 1):
            self.assertTrue(self.watch.stands_still(self.counters))


class Storms(unittest.TestCase):
    def test_storms_under_freeway_end(self) -> None:
        library = os.environ["FREEWAY_LIB"]
        for subject in (s for s in WITH if s.allocator == "freeway"):
            for situation in hangs.SITUATIONS:
                environment = {**os.environ, "LD_PRELOAD": library, **subject.variables}
                end, stands = hangs.run_once(environment, situation, 0.2, look=True)
                self.assertEqual((end, stands), ("ended", []), f"{subject.name}, {situation}")


class Page(unittest.TestCase):
    def test_cell_says_what_became_of_runs(self) -> None:
        self.assertEqual(run.ends_in_words({"ended": 20}), "0 of 20")
        self.assertEqual(run.ends_in_words({"ended": 17, "hung": 2, "SIGSEGV": 1}), "**1 SIGSEGV**, **2 hung** of 20")
        self.assertEqual(run.ends_in_words({}), "–")


if __name__ == "__main__":
    unittest.main()
