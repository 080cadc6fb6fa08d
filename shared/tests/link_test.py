# SPDX-License-Identifier: MIT
"""Without libfreeway-shared each linker here names the function that a program with libfreeway lacks; with both, in
whatever order, it says nothing, and the program runs. $FREEWAY_BUILD_DIR has the libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["FREEWAY_BUILD_DIR"])
LINKERS = [linker for linker in ("bfd", "gold", "lld") if shutil.which(f"ld.{linker}")]
PROGRAM = """
#include <freeway/freeway.h>
#include <freeway/shared.h>
int main(void) { return freeway_shared_attach(-1) == NULL && freeway_version() != NULL ? 0 : 1; }
"""
MISSING = r"undefined (reference to|symbol:) \W?freeway_shared_attach\b"


class Link(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="freeway-link-")
        self.addCleanup(folder.cleanup)
        self.program = Path(folder.name) / "program"

    def link(self, linker: str, *libraries: str) -> subprocess.CompletedProcess[str]:
        command = [os.environ.get("CC", "cc"), f"-fuse-ld={linker}", f"-I{SOURCE}/include", "-xc", "-", "-xnone"]
        command += [BUILD / library for library in libraries]
        command += [f"-Wl,-rpath,{BUILD}", "-o", self.program]
        return subprocess.run(command, input=PROGRAM, capture_output=True, text=True, check=False)

    def test_the_missing_function_is_named(self) -> None:
        for linker in LINKERS:
            for library in ("libfreeway.so", "libfreeway.a"):
                with self.subTest(linker=linker, library=library):
                    done = self.link(linker, library)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertRegex(done.stderr, MISSING)

    def test_nothing_is_said_with_both_in_any_order(self) -> None:
        for linker in LINKERS:
            for form in ("so", "a"):
                for both in (("libfreeway", "libfreeway-shared"), ("libfreeway-shared", "libfreeway")):
                    with self.subTest(linker=linker, form=form, both=both):
                        done = self.link(linker, *(f"{name}.{form}" for name in both))
                        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
                        subprocess.run([self.program], check=True)


if __name__ == "__main__":
    unittest.main()
