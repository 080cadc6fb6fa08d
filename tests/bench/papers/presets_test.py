# SPDX-License-Identifier: MIT
#
# presets_test.py: the presets are the papers' parameters. Each number stands here a second time, with where the paper
# has it: whoever changes a preset must contradict the paper in this table, too. What a paper does not print and the
# programs' heads call ours is in the second table.
"""Tests of the presets, and of how the catalogue uses them."""

from __future__ import annotations

import unittest

import programs
from harness.catalogue import papers

# (program, preset): parameters as printed.
PRINTED = {
    # Michael 2004, section 4.1, paragraph by paragraph; footnote 4 for the idle thread.
    ("linux_scalability", "michael"): {"blocks": 10_000_000, "size": 8, "keep": 0, "idle-thread": 1},
    ("threadtest", "michael"): {"rounds": 100, "blocks": 100_000, "size": 8, "share-out": 0, "idle-thread": 1},
    ("active_false", "michael"): {"pairs": 10_000, "size": 8, "writes": 1000, "idle-thread": 1},
    ("passive_false", "michael"): {"pairs": 10_000, "size": 8, "writes": 1000, "idle-thread": 1},
    ("larson", "michael"): {"min": 16, "max": 80, "slots": 1024, "warm": 1, "generations": 1, "once": 0,
                            "paper-seconds": 30, "idle-thread": 1},
    ("lockfree_producer_consumer", "michael"): {"items": 1_000_000, "queue": 1000, "idle-thread": 1},
    # Dice and Garthwaite 2002, Tables 2 and 3: `mmicro threads :milliseconds length`, rounds of 64 blocks.
    ("mmicro", "lfmalloc"): {"threads": 64, "paper-milliseconds": 10_000, "size": 200, "blocks": 64},
    ("mmicro", "lfmalloc-table3"): {"paper-milliseconds": 10_000, "size": 64, "blocks": 64},
    # Streamflow 2006, Table 1; 8 threads in Table 2.
    ("recycle", "streamflow"): {"threads": 8, "blocks": 10_000_000, "size": 8, "rate": 1000},
    ("larson", "streamflow"): {"threads": 8, "min": 7, "max": 7, "paper-seconds": 5, "no-malloc": 0},
    ("consume", "streamflow"): {"threads": 8, "blocks": 6000, "iterations": 5000, "size": 4},
    # HMalloc 2020, sections 4.1 to 4.4, and its Table 1 where that differs.
    ("threadtest", "hmalloc"): {"blocks": 100_000, "share-out": 1, "size": 64, "rounds": 5000},
    ("linux_scalability", "hmalloc"): {"blocks": 1_000_000, "size": 512, "keep": 1},
    ("shbench", "hmalloc"): {"blocks": 1000, "min": 1, "max": 1024, "iterations": 2_000_000},
    ("shbench", "hmalloc-table1"): {"min": 1, "max": 1024, "iterations": 200_000},
    ("largetest", "hmalloc"): {"blocks": 100, "groups": 1, "size": 64, "large": 65536, "iterations": 1_000_000},
    ("largetest", "hmalloc-table1"): {"size": 64, "large": 65536, "iterations": 5000},
    ("consume", "hmalloc"): {"threads": 15, "size": 8},
    ("consume", "hmalloc-table1"): {"iterations": 5000},
    ("larson", "hmalloc"): {"min": 8, "max": 512, "slots": 10_000, "paper-seconds": 10, "once": 0},
    ("active_false", "hmalloc"): {"pairs": 200_000, "size": 8, "writes": 20_000},
    ("passive_false", "hmalloc"): {"rounds": 10_000_000, "size": 8, "writes": 1, "pairs": 1},
}  # fmt: skip

# (program, preset): parameters that no paper prints.
OURS = {
    ("passive_false", "michael"): {"rounds": 1},
    ("lockfree_producer_consumer", "michael"): {"tasks": 1_000_000},
    ("larson", "michael"): {"steps": 48_000_000, "no-malloc": 0},
    # The original program's defaults.
    ("linux_scalability", "lfmalloc"): {"size": 512, "blocks": 1_000_000, "keep": 0, "idle-thread": 0},
    # They give the printed footprint.
    ("threadtest", "lfmalloc"): {"size": 56, "blocks": 65_536, "share-out": 1, "rounds": 1000, "idle-thread": 0},
    ("larson", "lfmalloc"): {"slots": 1000, "min": 8, "max": 1000, "generations": 50, "once": 0},
    ("mmicro", "lfmalloc"): {"rounds": 1_000_000},
    # With 8 lanes 2.72 million blocks: 8000 at first, 8000 for each succession (Table 1's number).
    ("larson", "streamflow"): {"slots": 1000, "generations": 339, "once": 1},
    ("consume", "streamflow"): {"ahead": 1},
    ("consume", "hmalloc"): {"blocks": 64, "ahead": 64},
    ("larson", "hmalloc"): {"generations": 50, "steps": 48_000_000},
    ("larson", "today"): {"threads": 2, "slots": 1000, "min": 8, "max": 1000, "generations": 50, "steps": 48_000_000,
                          "once": 0, "warm": 0, "no-malloc": 0, "idle-thread": 0},
}  # fmt: skip

# Each paper's numbers of threads, all of them.
LISTS = {
    "michael": tuple(range(1, 17)),
    "lfmalloc": (*range(1, 17), 18, 20, 22, 24, 26, 28, 30, 32, 64, 128, 256),
    "streamflow": tuple(range(1, 9)),
    "hmalloc": tuple(range(1, 17)),
}


class Presets(unittest.TestCase):
    """Against the papers."""

    def test_presets_have_the_printed_parameters(self) -> None:
        """And those that the heads of the programs call ours."""
        for table in (PRINTED, OURS):
            for (program, preset), expected in table.items():
                found = programs.parameters(f"{program} --preset {preset}")
                self.assertEqual(found["preset"], preset)
                self.assertEqual({name: found.get(name) for name in expected}, expected, f"{program} {preset}")

    def test_computed_numbers_are_the_papers(self) -> None:
        """Products that the papers print as one number."""
        consume = programs.parameters("consume --preset streamflow")
        self.assertEqual(consume["threads"] * consume["blocks"] * consume["iterations"], 240_000_000)
        one_by_one = programs.parameters("consume --preset hmalloc")
        self.assertEqual(one_by_one["blocks"] * one_by_one["iterations"], 1_000_000)
        buffer = programs.parameters("consume --preset hmalloc-table1")
        self.assertEqual(buffer["blocks"] * buffer["size"], 60_000)
        table1 = programs.parameters("largetest --preset hmalloc-table1")
        self.assertEqual(table1["groups"] * table1["blocks"], 100_000)

    def test_an_argument_overrides_its_preset(self) -> None:
        """Only that one."""
        preset = programs.parameters("larson --preset michael")
        changed = programs.parameters("larson --slots 77 --preset michael")
        self.assertEqual(changed, {**preset, "slots": 77})

    def test_what_is_not_understood_is_refused(self) -> None:
        """A misspelt argument would measure something else."""
        for wrong in ("--preset hoard", "--slots 0", "--slots", "--slot 3", "7", "--threads x", "--seconds -1"):
            done = programs.start(f"larson {wrong}")
            self.assertEqual((done.returncode, done.stdout), (2, ""), wrong)
            self.assertTrue(done.stderr, wrong)


class Catalogue(unittest.TestCase):
    """What harness/catalogue/papers.py makes of the presets."""

    def test_every_workload_is_a_presets(self) -> None:
        """Its arguments are understood, and its preset is its paper's."""
        for workload in papers.WORKLOADS:
            threads = workload.threads or (None,)
            words = " ".join(workload.argv).replace("{threads}", str(threads[-1]))
            found = programs.parameters(words)
            self.assertTrue(found["preset"].startswith(workload.paper), workload.name)
            if workload.threads:
                self.assertEqual(found["threads"], threads[-1])

    def test_scaling_runs_the_papers_numbers_of_threads(self) -> None:
        """And the suite `papers` some of them."""
        for workload in papers.WORKLOADS:
            if workload.scaling:
                most = 15 if workload.name == "producer-consumer-hmalloc" else 1000
                self.assertEqual(workload.scaling, tuple(n for n in LISTS[workload.paper] if n <= most), workload.name)
            self.assertLessEqual(set(workload.threads), set(LISTS[workload.paper]), workload.name)

    def test_a_workload_says_where_it_comes_from(self) -> None:
        """For the report."""
        for workload in papers.WORKLOADS:
            self.assertTrue(workload.item and workload.what and workload.name.endswith(f"-{workload.paper}"))


if __name__ == "__main__":
    unittest.main()
