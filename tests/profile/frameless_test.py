# SPDX-License-Identifier: MIT
"""Stacks of a program without frame pointers are whole: pieces of them are kept, and unwound afterwards.

frameless_test.py PROGRAM: frameless_program.c; FREEWAY_LIB is preloaded, FREEWAY_COMMAND reads its profiles.
"""

import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1)
SKIPPED = 77


def collapsed(dump: Path) -> dict[str, int]:
    """Live bytes of each stack, from main on."""
    command = [os.environ["FREEWAY_COMMAND"], "profile", "convert", str(dump), "--format", "collapsed"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    stacks: dict[str, int] = {}
    for line in text.splitlines():
        stack, value = line.rsplit(" ", 1)
        names = [re.sub(r"[ (].*", "", name) for name in stack.split(";")]
        if "main" in names:
            key = ";".join(names[names.index("main") :])
            stacks[key] = stacks.get(key, 0) + int(value)
    return stacks


class Frameless(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def dump(self, setting: str) -> Path:
        environment = {**os.environ, "LD_PRELOAD": os.environ["FREEWAY_LIB"], "FREEWAY_PROFILE": setting}
        subprocess.run([PROGRAM], env=environment, cwd=self.folder, check=True)
        (dump,) = self.folder.glob("*.heap")
        return dump

    def test_stacks_are_whole(self) -> None:
        self.assertEqual(
            collapsed(self.dump("1")),
            {"main;outermost;left;innermost": 100_000, "main;outermost;right;innermost": 300_000},
        )

    def test_what_differs_between_frames_does_not_tell_stacks_apart(self) -> None:
        text = self.dump("1").read_text()
        copies = text.count("\n#copy ")
        self.assertGreaterEqual(copies, 2)
        self.assertLess(copies, 40, "400 samples of two stacks")

    def test_copies_are_for_the_owners_eyes(self) -> None:
        self.assertEqual(stat.S_IMODE(self.dump("1").stat().st_mode), 0o600)

    def test_short_copies_give_short_stacks(self) -> None:
        stacks = collapsed(self.dump("1,copy=64"))
        self.assertEqual(stacks, {}, "main is further up")

    def test_none_where_none_are_wanted(self) -> None:
        self.assertNotIn("\n#copy", self.dump("1,copy=0").read_text())


if __name__ == "__main__":
    if not Path(os.environ["FREEWAY_COMMAND"]).with_name("freeway-profile").exists():
        sys.exit(SKIPPED)
    unittest.main()
