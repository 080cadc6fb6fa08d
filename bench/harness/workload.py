# SPDX-License-Identifier: MIT
#
# workload.py: how a workload is declared. The declarations themselves are in harness/catalogue, a file for each group.
#
# argv[0] names what is run:
#   "larson"          a program of bench/workloads, <build>/bench/workloads/larson. It runs with the allocator preloaded
#                     and prints one line of JSON (bench/workloads/support/measure.h).
#   "real/redis.py"   a driver of a real program, bench/real/redis.py, run by the laboratory's Python in an empty folder
#                     of its own *without* the allocator. It starts the real program under the allocator with
#                     harness.real_program.run, which knows how (the laboratory says it in LAB_... variables), and
#                     prints one line of the same form with harness.real_program.report: times, memory and faults in it
#                     are the real program's, not the driver's. Exit status 77: the real program is not installed (the
#                     sample is then `missing`; the driver says on stderr what to install).
# Either gets `--shrink N` as its last arguments if N > 1.
"""Workloads and their metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CPU_NS = "cpu_ns"  # CPU time of all threads, nanoseconds an operation: from the program's cpu_seconds and ops
WALL_NS = "wall_ns"  # the same of wall time
# Seconds of the whole process, by the kernel's account.
USER_S, SYSTEM_S, WALL_S, CPU_S = "user_s", "system_s", "wall_s", "cpu_s"
PEAK_RSS_KIB = "rss_peak_kib"
MINOR_FAULTS = "minor_faults"


@dataclass(frozen=True)
class Metric:
    """One figure of a workload."""

    key: str  # one of the constants above, or a key of the program's own JSON line
    label: str
    unit: str = "ns"
    target: float | None = None  # at most this multiple of the best peer, where a target was set
    timing: bool = True  # belongs to the geometric mean of times
    higher_is_better: bool = False

    def value(self, result: Mapping[str, float]) -> float:
        """The figure, from one result (the program's JSON line and the kernel's account); KeyError if absent."""
        if self.key == CPU_NS:
            return float(result["cpu_seconds"]) * 1e9 / float(result["ops"])
        if self.key == WALL_NS:
            return float(result["seconds"]) * 1e9 / float(result["ops"])
        if self.key == CPU_S:
            return float(result[USER_S]) + float(result[SYSTEM_S])
        return float(result[self.key])


PEAK_RSS = Metric(PEAK_RSS_KIB, "peak RSS", "KiB", timing=False)


@dataclass(frozen=True)
class Workload:
    """A program with its arguments. A new process is started for each sample."""

    name: str  # unique over all catalogues, e.g. "larson-michael"
    argv: tuple[str, ...]  # [0]: see above; "{threads}" stands for the number of threads
    metrics: tuple[Metric, ...]  # [0] is the main one
    suites: tuple[str, ...]  # of "quick", "today", "papers", "real", "small", "fleet", "scaling"
    groups: tuple[str, ...] = field(default=())  # further words that --only understands
    what: str = ""  # one line for readers: what the program does, and what it is there to show
    paper: str = ""  # "michael", "lfmalloc", "streamflow", "hmalloc", "nbbs" or ""
    item: str = ""  # what of the paper it reproduces: "Table 1", "Fig. 8a", …
    threads: tuple[int, ...] = ()  # numbers of threads to run it with, where argv has "{threads}"; the paper's own list
    scaling: tuple[int, ...] = ()  # those of the suite `scaling`, if more
    allocators: tuple[str, ...] = ()  # () = all; else only these (a workload with an interface of its own)
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: int = 300  # for one sample at full size; a run that takes longer is reported as hanging
