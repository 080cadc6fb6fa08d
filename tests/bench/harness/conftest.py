# SPDX-License-Identifier: MIT
"""The build under test, and results made up for tests."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

from harness.results import AllocatorRecord, Run, Sample, Writer  # noqa: E402


@pytest.fixture(scope="session")
def build() -> Path:
    """The build folder, with measured_run and the workloads."""
    return Path(os.environ["FREEWAY_BUILD_DIR"])


@pytest.fixture(scope="session")
def fakes() -> Path:
    """The folder of the fake allocators."""
    return Path(os.environ["FREEWAY_FAKES"])


def made_up_results(path: Path, costs: Mapping[str, float], repeats: int = 9, seed: int = 1, drift: float = 1) -> Path:
    """A file with one workload ("lifo") in which each allocator's operation costs about `costs` ns.

    Samples of one repeat share what slows the machine (up to 30 %); each has noise of 2 % of its own."""
    generator = random.Random(seed)
    with Writer(path) as writer:
        records = tuple(AllocatorRecord(name, None, "1") for name in costs)
        writer.write(Run(f"made-up-{seed}", "today", repeats, 1, {"cpus": 2}, records, ("lifo",)))
        for repeat in range(repeats):
            slowness = drift * generator.uniform(1, 1.3)
            for name, cost in costs.items():
                seconds = cost * slowness * generator.gauss(1, 0.02) / 1000
                values = {"ops": 1e6, "cpu_seconds": seconds, "seconds": seconds, "rss_peak_kib": 1000.0}
                writer.write(Sample(f"made-up-{seed}", repeat, "lifo", None, name, "ok", values=values, checksum="1"))
    return path
