# SPDX-License-Identifier: MIT
#
# small.py: what small programs have at their peak: the least that an allocator costs a process.
"""Small programs."""

from __future__ import annotations

from harness.workload import CPU_S, PEAK_RSS, Metric, Workload

SUITES = ("small",)


def _small(name: str, what: str) -> Workload:
    metrics = (PEAK_RSS, Metric(CPU_S, "CPU time", "s"))
    return Workload(f"small-{name}", ("real/small.py", "--program", name), metrics, SUITES, ("small", "memory"), what)


WORKLOADS: tuple[Workload, ...] = (
    _small("hello", "prints one line"),
    _small("ls", "ls -l of 300 files"),
    _small("git", "git status of as many"),
    _small("python", "python3 -c pass"),
    _small("bash", "a shell that forks five times"),
    _small("sqlite", "sqlite3: 20,000 rows and an index in memory"),
)
