# SPDX-License-Identifier: MIT
"""Tests of the workloads of today ($PROGRAMS is where they are), small, under glibc, $FREEWAY_LIB and mimalloc.

$ONE_BLOCK is a malloc that hands out one block of 128 (or $ONE_BLOCK_SIZE) bytes again and again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAMS = Path(os.environ["PROGRAMS"])
ONE_BLOCK = os.environ["ONE_BLOCK"]
HISTOGRAM_OF = os.environ["HISTOGRAM_OF_LIBRARY"]
MIMALLOC = Path("/usr/lib/x86_64-linux-gnu/libmimalloc.so.2")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))

from harness.catalogue.today import WORKLOADS  # noqa: E402

ALLOCATORS = {"glibc": "", "freeway": os.environ["FREEWAY_LIB"]}
if MIMALLOC.exists():
    ALLOCATORS["mimalloc"] = str(MIMALLOC)
SHRINK = 300
Line = dict[str, float]


def start(program: str, *arguments: str, preload: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | variables
    if preload:
        environment["LD_PRELOAD"] = preload
    command = [str(PROGRAMS / program), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)


def run(program: str, *arguments: str, preload: str = "") -> Line:
    """Runs it and returns its line; fails if it failed."""
    done = start(program, *arguments, preload=preload)
    if done.returncode != 0:
        raise AssertionError(f"{program} {arguments}: exit status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


class Declared(unittest.TestCase):
    """Every declaration runs, says what it is declared to, and has done the same work everywhere."""

    def test_all(self) -> None:
        for workload in WORKLOADS:
            with self.subTest(workload=workload.name):
                arguments = [a.format(threads=3) for a in workload.argv[1:]]
                # --shrink leaves one phase of 10^6 blocks, which is too long for here.
                arguments = ["10000" if a == "1000000" else a for a in arguments]
                lines = {
                    name: run(workload.argv[0], *arguments, "--shrink", str(SHRINK), preload=library)
                    for name, library in ALLOCATORS.items()
                }
                first = lines["glibc"]
                for name, line in lines.items():
                    self.assertEqual(line["checksum"], first["checksum"], name)
                    self.assertEqual(line["ops"], first["ops"], name)
                    for metric in workload.metrics:
                        self.assertGreaterEqual(metric.value(line), 0, f"{metric.key} under {name}")

    def test_names_are_unique_and_explained(self) -> None:
        names = [w.name for w in WORKLOADS]
        self.assertEqual(len(names), len(set(names)))
        for workload in WORKLOADS:
            self.assertTrue(workload.what, workload.name)

    def test_quick_is_a_dozen(self) -> None:
        quick = [w.name for w in WORKLOADS if "quick" in w.suites]
        self.assertTrue(12 <= len(quick) <= 16, quick)


class Work(unittest.TestCase):
    """What the checksum says."""

    def test_the_number_of_threads_does_not_matter(self) -> None:
        for program, arguments in (("server", ("--requests", "2000")), ("kv_cache", ("--shrink", "200"))):
            lines = [run(program, *arguments, "--threads", threads) for threads in ("1", "2", "7")]
            self.assertEqual(len({line["checksum"] for line in lines}), 1, program)

    def test_other_work_has_another_checksum(self) -> None:
        for program, arguments in (
            ("random_replace", ("--sizes", "git")),
            ("phases", ("--order", "in")),
            ("rings", ()),
            ("rounds", ()),
            ("realloc_growth", ("--growth", "half")),
            ("producer_consumer", ("--pairs", "2")),
            ("server", ()),
            ("kv_cache", ()),
        ):
            one = run(program, *arguments, "--shrink", "30")
            other = run(program, *arguments, "--shrink", "15")
            self.assertNotEqual(one["checksum"], other["checksum"], program)

    def test_blocks_handed_out_twice_are_noticed(self) -> None:
        for program, arguments in (
            ("random_replace", ("--min", "128", "--max", "128", "--slots", "500", "--shrink", "2000")),
            ("phases", ("--threads", "1", "--min", "128", "--max", "128", "--phases", "1")),
            ("producer_consumer", ("--size", "128", "--blocks", "100000")),
            ("rounds", ("--min", "128", "--max", "128", "--shrink", "1000")),
        ):
            true = run(program, *arguments)
            false = run(program, *arguments, preload=ONE_BLOCK)
            self.assertNotEqual(true["checksum"], false["checksum"], program)
        for program, arguments in (
            ("server", ("--requests", "1000", "--sessions", "50")),  # responses begin with 256 bytes
            ("kv_cache", ("--shrink", "50")),
            ("fork_heavy", ("--blocks", "50000", "--children", "1")),
        ):
            size = "256" if program == "server" else "128"
            done = start(program, *arguments, preload=ONE_BLOCK, ONE_BLOCK_SIZE=size)
            self.assertEqual(done.returncode, 1, f"{program}: {done.stdout}")
            self.assertIn("not what", done.stderr)

    def test_fleet(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            profile = Path(folder) / "profile.csv"
            profile.write_text("8, 50, 20000\n24, 3000.5, 900\n128, 500, 2000.25\n")
            few = ("--profile", str(profile), "--operations", "20000", "--laps", "2")
            for threads in ("1", "3"):
                lines = [
                    run("fleet_profile", *few, "--threads", threads, "--remote", share) for share in ("0", "40", "100")
                ]
                self.assertEqual(len({(line["checksum"], line["ops"]) for line in lines}), 1)
            self.assertNotEqual(
                run("fleet_profile", *few, preload=ONE_BLOCK)["checksum"], run("fleet_profile", *few)["checksum"]
            )
            self.assertGreater(run("fleet_profile", *few)["rss_per_live"], 1)
            profile.write_text("8, 50, 20000\nbytes, rate, live\n")
            self.assertEqual(start("fleet_profile", *few).returncode, 2)

    def test_wrong_words_are_refused(self) -> None:
        for program, arguments in (
            ("random_replace", ("--sizes", "nobody")),
            ("phases", ("--order", "none")),
            ("rounds", ("--min", "7")),
            ("realloc_growth", ("--growth", "triple")),
            ("aligned_mix", ("--most", "100")),
            ("kv_cache", ("--skew", "0")),
        ):
            done = start(program, *arguments)
            self.assertEqual(done.returncode, 2, program)
            self.assertIn(arguments[0], done.stderr)


class Cache(unittest.TestCase):
    """The memory figures of kv_cache."""

    def test_memory_is_never_below_what_is_live(self) -> None:
        line = run("kv_cache", "--limit", "16", "--keys", "100000", "--requests", "20000")
        ratios = [line[f"rss_over_live_{epoch}"] for epoch in range(1, 9)]
        self.assertGreater(min(ratios), 1)
        self.assertAlmostEqual(max(ratios), line["rss_over_live_max"], places=4)
        self.assertEqual(ratios[-1], line["rss_over_live"])
        self.assertGreater(line["evicted"], 0)
        self.assertTrue(0 < line["hit_percent"] < 100)


class Recorder(unittest.TestCase):
    """libhistogram_of.so counts every request, in its bin."""

    def rows_of(self, *arguments: str) -> dict[tuple[int, int], int]:
        """The histogram of one run of lifo_pair."""
        with tempfile.TemporaryDirectory() as folder:
            done = start("lifo_pair", *arguments, preload=HISTOGRAM_OF, HISTOGRAM_OF=f"{folder}/sizes")
            self.assertEqual(done.returncode, 0, done.stderr)
            (file,) = Path(folder).iterdir()
            self.assertTrue(file.name.startswith("sizes.lifo_pair."), file.name)
            rows = [[int(word) for word in row.strip("{},").split(",")] for row in file.read_text().split("\n") if row]
            return {(first, last): count for first, last, count in rows}

    def test_counts(self) -> None:
        few = self.rows_of("--size", "44", "--shrink", "60000")
        many = self.rows_of("--size", "44", "--shrink", "6000")
        self.assertEqual(many[41, 48] - few[41, 48], 10_000 - 1_000)
        del many[41, 48], few[41, 48]
        self.assertEqual(many, few)

    def test_large_sizes(self) -> None:
        self.assertEqual(self.rows_of("--size", "5000", "--shrink", "600000")[4609, 5120], 100)


if __name__ == "__main__":
    unittest.main()
