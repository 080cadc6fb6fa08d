# SPDX-License-Identifier: MIT
"""The script of the page, run by node: page_test.js says what is looked at."""

from __future__ import annotations

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from dumps import MAPS, MEASURES, SAMPLES, WASTED, InAFolder, Sample, dump_of, total, wasting_dump

NODE = shutil.which("node")
SKIPPED = 77


class Page(InAFolder):
    def look(self, measure: str, expected: float, *arguments: str) -> None:
        page = str(self.folder / "page.html")
        self.profile("convert", "-o", page, "--sample", measure, *arguments)
        script = Path(__file__).with_suffix(".js")
        command = [str(NODE), str(script), page, measure, str(round(expected))]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)

    def test_each_measure(self) -> None:
        dump = self.file("dump", dump_of(SAMPLES))
        for measure, expected in zip(MEASURES, total(SAMPLES), strict=True):
            self.look(measure, expected, dump)
        dump = self.file("dump", wasting_dump())
        for measure, expected in zip(MEASURES, total(WASTED), strict=True):
            self.look(measure, expected, dump)

    def test_difference(self) -> None:
        before = [Sample(9, 9, 1000, [0x401005, 0x402005]), SAMPLES[3]]
        dump, base = self.file("dump", dump_of(SAMPLES)), self.file("base", dump_of(before))
        change = total(SAMPLES)[3] - total(before)[3]
        self.look("inuse_space", change, dump, "--base", base)

    def test_empty_dump(self) -> None:
        dump = self.file("dump", dump_of([]))
        self.look("inuse_space", 0, dump)
        self.look("inuse_space", 0, dump, "--base", dump)

    def test_names_with_everything_in_them(self) -> None:
        odd = "</script>\\\"'<!--\u2028\u00e9&"
        dump = self.file(
            "dump", dump_of(SAMPLES, maps=MAPS.replace("/no/such/program", f"/{odd}"), about=f"program={odd}")
        )
        self.look("inuse_space", total(SAMPLES)[3], dump)


if __name__ == "__main__":
    if NODE is None:
        print("skipped: there is no node")
        sys.exit(SKIPPED)
    unittest.main()
