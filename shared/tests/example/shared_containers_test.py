# SPDX-License-Identifier: MIT
"""What shared/example/containers ($SHARED_CONTAINERS) says: a list of words grows from process to process, several at
once, each with the file at another address, and the list's blocks are all that there is."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from collections import Counter
from pathlib import Path

PROGRAM = os.environ["SHARED_CONTAINERS"]
TEXTS = [[f"{'long ' * (i % 40)}word {i * k % 50}" for i in range(120)] for k in range(1, 9)]


class SharedContainers(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="freeway-containers-")
        self.addCleanup(folder.cleanup)
        self.file = str(Path(folder.name) / "words")

    def say(self, *words: str) -> str:
        return subprocess.run([PROGRAM, self.file, *words], check=True, capture_output=True, text=True).stdout

    def test_processes_count_together_and_leave_nothing_else(self) -> None:
        self.say("count", *TEXTS[0])  # makes the file
        counting = [subprocess.Popen([PROGRAM, self.file, "count", *text]) for text in TEXTS[1:]]
        for process in counting:
            self.assertEqual(process.wait(), 0)
        counts = Counter(word for text in TEXTS for word in text)
        wanted = "".join(f"{counts[word]} {word}\n" for word in sorted(counts))
        self.assertEqual(self.say("list"), wanted)
        blocks = len(counts) + 2  # the texts, the list, its elements
        self.assertEqual(self.say("check"), f"{blocks} blocks, {blocks} of them the list's; 0 errors\n")

    def test_a_file_that_is_no_heap_is_refused(self) -> None:
        Path(self.file).write_text("words of another kind\n")
        done = subprocess.run([PROGRAM, self.file, "list"], check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Invalid argument", done.stderr)


if __name__ == "__main__":
    unittest.main()
