# SPDX-License-Identifier: MIT
"""Which stacks pin what superblocks waste: exact figures of a dump that was written by hand; and what docs/profiles.md
promises of examples/after_the_peak.c ($AFTER_THE_PEAK), whose culprit is known."""

from __future__ import annotations

import os
import re
import subprocess
import unittest
from pathlib import Path

from dumps import WASTED, InAFolder, Sample, dump_of, wasting_dump

FIRST, SECOND = "program+0x3005;program+0x1005", "program+0x3005;program+0x2005"
ALL = 1910000  # bytes that are attributed


class Attribution(InAFolder):
    def test_each_class_is_divided_by_what_its_blocks_pin(self) -> None:
        got = self.collapsed(self.file("dump", wasting_dump()), "--sample", "waste")
        expected = {
            FIRST: WASTED[0].waste,
            SECOND: WASTED[1].waste + WASTED[2].waste,
            "program+0x4005": WASTED[3].waste,
        }
        self.assertEqual(got.keys(), expected.keys())
        for stack, bytes_ in expected.items():
            self.assertAlmostEqual(got[stack], bytes_, delta=1, msg=stack)

    def test_where_all_blocks_were_sampled_they_count_as_they_are(self) -> None:
        got = self.collapsed(self.file("dump", wasting_dump(interval=1)), "--sample", "waste")
        self.assertEqual(got, {FIRST: 400000, SECOND: 1500000 + 7500, "program+0x4005": 2500})

    def test_table(self) -> None:
        text = self.profile("top", "--sample", "waste", self.file("dump", wasting_dump()))
        self.assertIn("by waste that live blocks pin:", text)
        self.assertIn("waste: 1.82 MiB of 2.03 MiB in superblocks: 1.81 MiB between blocks of 1024, ", text)
        self.assertIn("9.77 KiB between blocks of 64, 1.50 KiB between blocks of 1280; ", text)
        self.assertIn("; 1.50 KiB of it where no live block was sampled\n", text)
        rows = re.findall(r"^ +(\S+ \S+) +\S+ \S+ +(\S+) %  .*program\+(\w+)$", text, re.MULTILINE)
        expected = [("1.44 MiB", "78.9", "0x2005"), ("391 KiB", "20.9", "0x1005"), ("2.56 KiB", "0.14", "0x4005")]
        self.assertEqual(rows, expected)
        self.assertNotIn("is not known", text)

    def test_what_chance_may_do_is_said(self) -> None:
        """Of x / (x + y) to the first order, where n samples of mean square q vary by n q (1 - p) / p^2."""
        text = self.profile("top", "--sample", "waste", self.file("dump", wasting_dump()))
        x, y = 4 * 200, 2 * 1500
        x2, y2 = 4 * (100**2 + 200**2 + 300**2) / 3, 2 * 1500**2  # 1 - p is as good as 1 here
        expected = 1900000 / (x + y) ** 2 * (y**2 * x2 + x**2 * y2) ** 0.5
        row = re.search(r"391 KiB +(\S+) KiB ", text)
        assert row is not None
        self.assertAlmostEqual(float(row[1]), expected / 1024, delta=1)

    def test_stacks_of_which_nothing_is_known_count_by_their_blocks(self) -> None:
        samples = [Sample(3, 3, 1000, [0x401005], "site=1"), Sample(1, 9, 1000, [0x402005], "site=2")]
        superblocks = "#class from=897 size=1024 superblocks=3 bytes=196608 live=96608\n"
        dump = self.file("dump", dump_of(samples, superblocks=superblocks))
        got = self.collapsed(dump, "--sample", "waste")
        self.assertEqual(got, {"program+0x1005": 75000, "program+0x2005": 25000})
        self.assertIn("where most samples would lie is not known", self.profile("top", "--sample", "waste", dump))

    def test_aligned_blocks_are_of_their_class(self) -> None:
        """Of 1000 bytes both, but some lie among blocks of 2048."""
        samples = [Sample(3, 3, 1000, [0x401005], "site=1"), Sample(1, 9, 1000, [0x402005], "site=2")]
        superblocks = "#class from=897 size=1024 superblocks=3 bytes=196608 live=96608\n"
        superblocks += "#class from=1793 size=2048 superblocks=1 bytes=65536 live=60536\n"
        pins = "#pin 1 100 size=1024\n#pin 2 900 size=2048 later=1\n"
        dump = self.file("dump", dump_of(samples, superblocks=superblocks, pins=pins))
        got = self.collapsed(dump, "--sample", "waste")
        self.assertEqual(got, {"program+0x1005": 100000, "program+0x2005": 5000})

    def test_nothing_is_divided_by_nothing(self) -> None:
        """What is wasted though nothing is pinned, as far as is known, goes by live blocks."""
        superblocks = "#class from=897 size=1024 superblocks=3 bytes=196608 live=96608\n"
        samples = [Sample(3, 3, 1000, [0x401005], "site=1")]
        dump = self.file("dump", dump_of(samples, superblocks=superblocks, pins="#pin 1 0\n"))
        self.assertEqual(self.collapsed(dump, "--sample", "waste"), {"program+0x1005": 100000})

    def test_difference(self) -> None:
        before, after = self.file("a", dump_of(WASTED)), self.file("b", wasting_dump())
        text = self.profile("diff", "--sample", "waste", before, after)
        self.assertRegex(text, r"\n +\+1\.44 MiB .*program\+0x2005\n")
        self.assertEqual(sum(self.proto(after, "--base", before).totals[4:]), ALL)
        self.assertIn("nothing has changed", self.profile("diff", "--sample", "waste", after, after))

    def test_profile_for_pprof_has_it_as_a_type(self) -> None:
        values = self.proto(self.file("dump", wasting_dump())).values
        self.assertEqual([value[4] for value in values], [round(sample.waste) for sample in WASTED])

    def test_dump_that_does_not_know_says_so(self) -> None:
        text = self.profile("top", "--sample", "waste", self.file("dump", dump_of(WASTED)))
        self.assertIn("waste: not known", text)
        self.assertIn("nothing is pinned", text)
        self.assertNotIn("waste", self.profile("top", self.file("dump", wasting_dump())))


class RealProgram(InAFolder):
    """Most live blocks are a cache's that lie close together, and others come and go; few that stay have the
    superblocks of a peak to themselves."""

    def test_culprit_is_named_though_others_have_more_blocks(self) -> None:
        library = {"LD_PRELOAD": os.environ["FREEWAY_LIB"], "FREEWAY_PROFILE": f"8k,prefix={self.folder}/peak"}
        subprocess.run([os.environ["AFTER_THE_PEAK"]], env=library, check=True)
        (dump,) = map(str, self.folder.glob("peak.*.heap"))

        def of(function: str, measure: str) -> int:
            stacks = self.collapsed(dump, "--sample", measure)
            return sum(value for stack, value in stacks.items() if stack.endswith(";" + function))

        self.assertGreater(of("fill_cache", "inuse_space"), 5 * of("begin_session", "inuse_space"))
        self.assertGreater(of("begin_session", "waste"), 2 * of("serve_request", "waste"))
        self.assertGreater(of("begin_session", "waste"), 10 * of("fill_cache", "waste"))
        first = self.profile("top", "--sample", "waste", dump).partition("where\n")[2].splitlines()[0]
        place = re.search(r"begin_session \(after_the_peak\.c:\d+\)$", first)
        assert place is not None, first
        page = Path(__file__).resolve().parents[3] / "docs/profiles.md"
        self.assertIn(place[0], page.read_text(), "the line of the page is that of the source")


if __name__ == "__main__":
    unittest.main()
