# SPDX-License-Identifier: MIT
#
# fleet.py: steady heaps with the sizes and lifetimes of measured services. The profiles are not Freeway's to give: copy
# fleetbench's fleetbench/tcmalloc/distributions/*.csv, or your own of the same form, to build/fleet.
"""Profiles of services."""

from __future__ import annotations

from pathlib import Path

from harness.workload import CPU_NS, PEAK_RSS, Metric, Workload

PROFILES = Path(__file__).resolve().parents[3] / "build/fleet"
WAYS = {
    "1": ("1 thread", "--threads", "1"),
    "2": ("2 threads", "--threads", "2"),
    "remote": ("2 threads, a tenth freed by the other", "--threads", "2", "--remote", "10"),
}


def _profile(file: Path) -> list[Workload]:
    name = file.stem.lower().replace("_", "-")
    return [
        Workload(
            f"fleet-{name}-{way}",
            ("fleet_profile", "--profile", str(file), *arguments),
            (
                Metric(CPU_NS, f"{name}, {label}"),
                Metric("rss_per_live", f"{name}: RSS / live, {label}", "x", timing=False),
                PEAK_RSS,
            ),
            ("fleet",),
            ("fleet",),
            "a steady heap with the sizes and lifetimes that were measured in a service",
        )
        for way, (label, *arguments) in WAYS.items()
    ]


WORKLOADS: tuple[Workload, ...] = tuple(
    workload for file in sorted(PROFILES.glob("*.csv")) for workload in _profile(file)
)
