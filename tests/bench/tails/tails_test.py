# SPDX-License-Identifier: MIT
"""Tests of the workload tails ($PROGRAMS is where it is), small, under glibc and $FREEWAY_LIB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

PROGRAM = Path(os.environ["PROGRAMS"]) / "tails"
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))

from harness.catalogue.tails import WORKLOADS  # noqa: E402

ALLOCATORS = {"glibc": "", "freeway": os.environ["FREEWAY_LIB"]}
SHRINK = 500
Line = dict[str, float]


def run(*arguments: str, preload: str = "") -> Line:
    """Runs it and returns its line."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    if preload:
        environment["LD_PRELOAD"] = preload
    done = subprocess.run(
        [str(PROGRAM), *arguments], env=environment, capture_output=True, text=True, timeout=100, check=True
    )
    return json.loads(done.stdout)


class Declared(unittest.TestCase):
    """Every declaration runs, says what it is declared to, and has done the same work everywhere."""

    def test_all(self) -> None:
        for workload in WORKLOADS:
            with self.subTest(workload=workload.name):
                lines = {
                    name: run(*workload.argv[1:], "--shrink", str(SHRINK), preload=library)
                    for name, library in ALLOCATORS.items()
                }
                self.assertEqual(len({line["checksum"] for line in lines.values()}), 1, lines)
                for line in lines.values():
                    for metric in workload.metrics:
                        self.assertGreater(metric.value(line), 0, metric.key)

    def test_in_order(self) -> None:
        line = run("--shrink", "100", "--disturb", "none")
        self.assertLessEqual(line["malloc_p50_us"], line["malloc_p9999_us"])
        self.assertLessEqual(line["malloc_p9999_us"], line["malloc_max_us"])
        self.assertLessEqual(line["nothing_p9999_us"], line["nothing_max_us"])


class Disturbances(unittest.TestCase):
    """Those that are asked for happen, and no others."""

    def test_each(self) -> None:
        kinds = {"trim": "trims", "fork": "forks", "hold": "holds", "die": "deaths"}
        for asked, counted in kinds.items():
            line = run("--calls", "400000", "--disturb", asked, "--trim-mib", "1")
            for key in kinds.values():
                (self.assertGreater if key == counted else self.assertEqual)(line[key], 0, (asked, key))
        line = run("--shrink", "100", "--disturb", "none")
        self.assertEqual([line[key] for key in kinds.values()], [0, 0, 0, 0])


if __name__ == "__main__":
    unittest.main()
