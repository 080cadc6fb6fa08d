# SPDX-License-Identifier: MIT
"""Tests of the workload buddy_operations ($BUDDY_OPERATIONS) with $BUDDY_LIBRARY, libfreeway-nbbs.so.

The program itself checks each block's stamps and that at the end nothing is left in the tree; it fails if not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

PROGRAM = os.environ["BUDDY_OPERATIONS"]
LIBRARY = os.environ["BUDDY_LIBRARY"]
ONE_BLOCK = os.environ["ONE_BLOCK"]
MIMALLOC = Path("/usr/lib/x86_64-linux-gnu/libmimalloc.so.2")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))

from harness.catalogue.buddy import WORKLOADS  # noqa: E402

SHRINK = 100
OPERATIONS = 10_000_000 // SHRINK
NOT_INSTALLED = 77
Line = dict[str, float]


def start(*arguments: str, preload: str = "", shrink: int = SHRINK) -> subprocess.CompletedProcess[str]:
    """Runs the program."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    if preload:
        environment["LD_PRELOAD"] = preload
    command = [PROGRAM, *arguments, "--shrink", str(shrink)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)


def run(*arguments: str, preload: str = "", shrink: int = SHRINK) -> Line:
    """Runs it and returns its line; fails if it failed."""
    done = start(*arguments, preload=preload, shrink=shrink)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: exit status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def on_buddy(*arguments: str) -> Line:
    """The same on the buddy, every smallest block stamped."""
    return run("--library", LIBRARY, "--stamps", "all", *arguments)


class Blocks(unittest.TestCase):
    """No block is handed out twice, none is left, whoever works on the tree."""

    def test_every_form_and_tree(self) -> None:
        for tree in ("1", "3", "4"):
            for form in ("corrected", "locked", "up"):
                with self.subTest(tree=tree, form=form):
                    line = on_buddy("--levels", "16", "--tree", tree, "--form", form, "--threads", "3")
                    self.assertEqual(line["overlaps"], 0)

    def test_every_configuration(self) -> None:
        for levels in ("28", "20", "16"):
            with self.subTest(levels=levels):
                self.assertEqual(on_buddy("--levels", levels, "--threads", "4")["overlaps"], 0)

    def test_processes_share_one_tree(self) -> None:
        line = on_buddy("--levels", "16", "--processes", "3")
        self.assertEqual(line["overlaps"], 0)
        # 4 MiB for all: three processes with a tree each would never be refused this often.
        alone = on_buddy("--levels", "16", "--processes", "1")
        self.assertGreater(line["refused"], alone["refused"])

    def test_the_published_form_is_measured_not_judged(self) -> None:
        line = on_buddy("--levels", "16", "--tree", "1", "--form", "published", "--threads", "4")
        self.assertEqual(line["ops"], OPERATIONS)

    def test_overlapping_blocks_are_noticed(self) -> None:
        """A malloc that hands out the same block again and again."""
        done = start("--over", "malloc", "--levels", "16", preload=ONE_BLOCK, shrink=1000)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("overlap", done.stderr)


class Work(unittest.TestCase):
    """The work depends on the arguments only."""

    def test_the_checksum_is_that_of_the_work(self) -> None:
        first = on_buddy("--levels", "28")
        others = [
            on_buddy("--levels", "28", "--threads", "5"),
            on_buddy("--levels", "16", "--processes", "2"),
            run("--over", "malloc", "--threads", "2"),
            run("--over", "malloc", "--levels", "20", preload=LIBRARY),
        ]
        if MIMALLOC.exists():
            others.append(run("--over", "malloc", preload=str(MIMALLOC)))
        for other in others:
            self.assertEqual(other["checksum"], first["checksum"])
            self.assertEqual(other["ops"], OPERATIONS)
        self.assertNotEqual(run("--over", "malloc", shrink=SHRINK * 2)["checksum"], first["checksum"])

    def test_half_of_the_operations_are_allocations(self) -> None:
        line = run("--over", "malloc", "--levels", "28")
        # A fair coin: 5 standard deviations. And an allocation where there is nothing to free.
        self.assertGreater(line["allocations"], OPERATIONS / 2 - 5 * OPERATIONS**0.5 / 2)
        self.assertLess(line["allocations"], OPERATIONS / 2 + 10 * OPERATIONS**0.5 / 2)

    def test_metadata_for_each_managed_byte(self) -> None:
        """As papers/nbbs/README.md has it."""
        for levels, tree, expected in (("28", "4", 0.1333), ("28", "1", 2.0), ("20", "4", 0.0005), ("16", "1", 0.125)):
            line = on_buddy("--levels", levels, "--tree", tree)
            self.assertAlmostEqual(line["metadata_per_byte"], expected, delta=expected * 0.05)

    def test_finishing_times(self) -> None:
        line = on_buddy("--levels", "20", "--threads", "6")
        self.assertLessEqual(line["finish_first_s"], line["finish_last_s"])
        self.assertAlmostEqual(line["first_over_last"], line["finish_first_s"] / line["finish_last_s"], places=3)
        self.assertGreaterEqual(line["finish_cv"], 0)
        self.assertEqual(on_buddy("--levels", "20")["first_over_last"], 1)

    def test_no_buddy_to_be_found(self) -> None:
        done = start("--levels", "16")
        self.assertEqual(done.returncode, NOT_INSTALLED)
        self.assertIn("missing", done.stderr)
        self.assertEqual(start("--library", "/nowhere.so").returncode, NOT_INSTALLED)


class Declarations(unittest.TestCase):
    """What the catalogue has, runs."""

    def test_all(self) -> None:
        for workload in WORKLOADS:
            with self.subTest(workload=workload.name):
                arguments = [a.format(threads=2) for a in workload.argv[1:]]
                line = run(*arguments, preload=LIBRARY, shrink=1000)
                for metric in workload.metrics:
                    self.assertGreaterEqual(metric.value(line), 0)

    def test_the_papers_thread_lists(self) -> None:
        lists = {w.name: w.threads for w in WORKLOADS}
        cores = (1, 2, 4, 8, 12, 16, 20, 24)
        self.assertEqual(lists["buddy-28-tree1-nbbs"], (*cores, 48, 96, 128, 256, 512))
        self.assertEqual(lists["buddy-16-tree1-locked-nbbs"], cores)


if __name__ == "__main__":
    unittest.main()
