# SPDX-License-Identifier: MIT
"""google/pprof ($PPROF) reads dumps, and what is converted from them, and both say what the formula says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest

from dumps import MEASURES, PPROFS_OWN, SAMPLES, WASTED, InAFolder, Sample, dump_of, near, total, wasting_dump

PPROF = os.environ.get("PPROF", "")
SKIPPED = 77


class Pprof(InAFolder):
    def pprof(self, *arguments: str) -> str:
        """What pprof prints; it is told nothing of this machine, and writes nothing outside the folder."""
        env = {"HOME": str(self.folder), "PPROF_TMPDIR": str(self.folder), "PATH": os.environ["PATH"]}
        command = [PPROF, "-symbolize=none", *arguments]
        outcome = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout

    def converted(self, dump: str, *arguments: str) -> str:
        out = f"{dump}.pb.gz"
        self.profile("convert", dump, "-o", out, *arguments)
        return out

    def raw(self, path: str, *arguments: str) -> dict[str, int]:
        """The sums of `pprof -raw` by measure."""
        samples = self.pprof("-raw", *arguments, path).split("\nSamples:\n")[1].split("\nLocations")[0].splitlines()
        names = [name.split("/")[0] for name in samples[0].split()]
        rows = [line.split(":")[0].split() for line in samples[1:] if re.match(r" +-?\d", line)]
        columns = list(zip(*([int(value) for value in row] for row in rows), strict=True)) or [()] * len(names)
        return dict(zip(names, map(sum, columns), strict=True))

    def top(self, path: str, measure: str, *arguments: str) -> int:
        unit = "-unit=count" if "objects" in measure else "-unit=B"
        out = self.pprof("-top", f"-sample_index={measure}", unit, *arguments, path)
        found = re.search(r"of (-?\d+)B? total", out)
        assert found is not None, out
        return int(found[1])

    def assert_near(self, got: dict[str, int], samples: list[Sample], interval: int = 524288) -> None:
        self.assertEqual(list(got), list(MEASURES)[: len(got)])
        for measure, expected in zip(got, total(samples, interval), strict=False):
            self.assertAlmostEqual(got[measure], expected, delta=near(expected, samples), msg=measure)

    def test_totals_of_dump_and_profile_are_the_formula_s(self) -> None:
        for interval in (1, 4096, 524288, 1 << 33):
            dump = self.file("dump", dump_of(SAMPLES, interval))
            self.assertEqual(list(self.raw(dump)), list(PPROFS_OWN))
            self.assertEqual(list(self.raw(self.converted(dump))), list(MEASURES))
            self.assert_near(self.raw(dump), SAMPLES, interval)
            self.assert_near(self.raw(self.converted(dump)), SAMPLES, interval)

    def test_what_superblocks_waste(self) -> None:
        dump = self.file("dump", wasting_dump())
        self.assert_near(self.raw(dump), WASTED)
        profile = self.converted(dump)
        self.assert_near(self.raw(profile), WASTED)
        self.assertAlmostEqual(self.top(profile, "waste"), 1910000, delta=len(WASTED))

    def test_top_of_each_measure(self) -> None:
        dump = self.file("dump", dump_of(SAMPLES))
        profile = self.converted(dump)
        for measure, expected in zip(MEASURES, total(SAMPLES), strict=True):
            if measure in PPROFS_OWN:
                self.assertAlmostEqual(self.top(dump, measure), expected, delta=len(SAMPLES))
            self.assertAlmostEqual(self.top(profile, measure), expected, delta=len(SAMPLES))

    def test_live_bytes_are_what_it_shows_first(self) -> None:
        self.assertIn("Type: inuse_space", self.pprof("-top", self.converted(self.file("dump", dump_of(SAMPLES)))))

    def test_empty_ones(self) -> None:
        dump = self.file("dump", dump_of([]))
        self.assertEqual(self.raw(dump), {"objects": 0, "space": 0})  # its names where nothing tells that there is more
        self.assertEqual(self.raw(self.converted(dump)), dict.fromkeys(MEASURES, 0))

    def test_difference_is_pprof_s_own(self) -> None:
        dump, base = self.file("dump", dump_of(SAMPLES)), self.file("base", dump_of(SAMPLES[:2]))
        for measure, after, before in zip(MEASURES, total(SAMPLES), total(SAMPLES[:2]), strict=True):
            values = [
                self.top(dump, measure, f"-base={base}") if measure in PPROFS_OWN else 0,
                self.top(self.converted(dump), measure, f"-base={self.converted(base)}"),
                self.top(self.converted(dump, "--base", base), measure),
            ]
            for value in values:
                self.assertAlmostEqual(value, after - before, delta=6, msg=f"{measure} of {values}")

    def test_tags_and_block_sizes_select_samples(self) -> None:
        profile = self.converted(self.file("dump", dump_of(SAMPLES)))
        for focus, chosen in (("tag=7", (0, 3)), ("tag=8", (2,)), ("bytes=2kB:4kB", (2,)), ("age=2s:", (1,))):
            self.assert_near(self.raw(profile, f"-tagfocus={focus}"), [SAMPLES[i] for i in chosen])
        tags = self.pprof("-tags", profile)
        for text in ("tag:", "bytes:", "age:", "lifetime:", "1.50s", "3MB"):
            self.assertIn(text, tags)

    def test_stacks_are_the_dump_s(self) -> None:
        raw = self.pprof("-raw", self.converted(self.file("dump", dump_of(SAMPLES))))
        first = re.search(r"^ .*: ([\d ]+)$", raw, re.MULTILINE)
        assert first is not None
        places = dict(re.findall(r"^ +(\d+): (0x\w+) M=1", raw.split("\nLocations")[1], re.MULTILINE))
        self.assertEqual([places[place] for place in first[1].split()], ["0x401004", "0x402004", "0x403004"])


if __name__ == "__main__":
    if not PPROF:
        print("skipped: there is no pprof; `make build/tools/pprof` installs it")
        sys.exit(SKIPPED)
    unittest.main()
