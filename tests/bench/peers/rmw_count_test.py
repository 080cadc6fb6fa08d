# SPDX-License-Identifier: MIT
#
# What the counted builds count is what is known of the engines: the papers' own numbers of atomic instructions on the
# common path, and the flagship's targets. Bounds, where batches or the other thread's progress matter.
"""Atomic read-modify-writes a block, by engine."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import unittest
from pathlib import Path

BUILD = Path(os.environ["FREEWAY_BUILD_DIR"])
PROGRAM = BUILD / "bench/workloads/rmw_count"
BLOCKS = 40_000
KINDS = ("local_pair", "remote_free", "random_replace", "larson")
HAS_RSEQ = ctypes.c_uint.in_dll(ctypes.CDLL(None), "__rseq_size").value > 0
HAS_TWO_CPUS = len(os.sched_getaffinity(0)) > 1


def counts(library: str, blocks: int = BLOCKS, **variables: str) -> dict[str, float]:
    """What the program prints under a library of the build."""
    path = BUILD / library
    env = {**os.environ, "LD_PRELOAD": str(path), **variables}
    done = subprocess.run(
        [PROGRAM, "--blocks", str(blocks)], env=env, capture_output=True, text=True, timeout=100, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"{library}: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


class Counts(unittest.TestCase):
    """One test for each library."""

    def test_normal_builds_do_not_count(self) -> None:
        """The program says so instead of printing zeros."""
        env = {**os.environ, "LD_PRELOAD": str(BUILD / "libfreeway.so")}
        done = subprocess.run([PROGRAM], env=env, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("counts nothing", done.stderr)

    @unittest.skipUnless(HAS_RSEQ, "libc has registered no rseq area")
    def test_flagship(self) -> None:
        """With rseq: none on the fast path; a block freed by another thread costs its share of a batch."""
        # The calmest of several tries: a compare-and-swap that fails for another thread's sake is counted, too.
        tries = [counts("libfreeway-counted.so", 300_000, FREEWAY_RSEQ="1") for _ in range(5)]
        found = {key: min(each[key] for each in tries) for key in KINDS}
        self.assertEqual(found["local_pair"], 0)
        if HAS_TWO_CPUS:
            self.assertGreater(found["remote_free"], 0.001)
        self.assertLessEqual(found["remote_free"], 0.06)
        self.assertLess(found["random_replace"], 0.02)
        self.assertLess(found["larson"], 0.02)

    def test_flagship_without_rseq(self) -> None:
        """A thread keeps its slab between calls, and enters it by plain stores."""
        found = counts("libfreeway-counted.so", FREEWAY_RSEQ="0")
        self.assertLessEqual(found["local_pair"], 0.01)
        if HAS_TWO_CPUS:
            self.assertGreater(found["remote_free"], 0.001)

    def test_michael(self) -> None:
        """Three compare-and-swaps a pair: malloc's on Active and Anchor, free's on Anchor; seldom an UpdateActive."""
        found = counts("libfreeway-michael-counted.so")
        self.assertGreaterEqual(found["local_pair"], 3)
        self.assertLessEqual(found["local_pair"], 3.1)
        self.assertGreaterEqual(found["remote_free"], 3)

    @unittest.skipUnless(HAS_RSEQ and HAS_TWO_CPUS, "libc has registered no rseq area, or there is one CPU")
    def test_lfmalloc(self) -> None:
        """None on the local path; a remote free is one compare-and-swap on the remote word."""
        found = counts("libfreeway-lfmalloc-counted.so", FREEWAY_RSEQ="1")
        self.assertEqual(found["local_pair"], 0)
        self.assertGreaterEqual(found["remote_free"], 0.9)
        self.assertLessEqual(found["remote_free"], 1.2)

    def test_streamflow(self) -> None:
        """None for local blocks, one for a remote free and one for each batch that the owner takes back."""
        found = counts("libfreeway-streamflow-counted.so")
        self.assertEqual(found["local_pair"], 0)
        self.assertGreaterEqual(found["remote_free"], 0.99)
        self.assertLessEqual(found["remote_free"], 1.3)

    def test_hmalloc(self) -> None:
        """None, whoever frees."""
        found = counts("libfreeway-hmalloc-counted.so")
        self.assertEqual(found["local_pair"], 0)
        self.assertLess(found["remote_free"], 0.01)

    def test_nbbs(self) -> None:
        """An allocation marks at most its ancestors, a free visits them twice: three times the depth bounds a pair."""
        depth = 20
        found = counts("libfreeway-nbbs-counted.so")
        self.assertGreaterEqual(found["kib_pair"], 2)
        self.assertLessEqual(found["kib_pair"], 3 * depth)
        self.assertLessEqual(found["local_pair"], 3 * depth)


if __name__ == "__main__":
    unittest.main()
