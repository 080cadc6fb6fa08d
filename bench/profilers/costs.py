# SPDX-License-Identifier: MIT
#
# costs.py: what a profile costs: CPU time with it over CPU time without, in the same allocator. Within a repeat all
# subjects run a workload one after the other, in another order each time; a ratio is that of one repeat, and the median
# is reported, with the smallest and the largest. What else the machine does falls on both, and widens the range.
"""The table of costs."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.allocators import Allocator
from harness.machine import ForeignCpu
from subjects import BUILD, ROOT, SAMPLED, WITH, Subject, known

WORKLOADS = BUILD / "bench/workloads"


@dataclass(frozen=True)
class Workload:
    """A command, in which SHRINK is what the work is divided by; `less`: for the profiler that records every allocation
    (with the usual work seconds become minutes; None: it is left out). `is_driver`: one of bench/real."""

    command: list[str]
    usual: int
    less: int | None
    is_driver: bool = False

    def cpu_seconds(self, shrink: int, subject: Subject, allocators: dict[str, Allocator]) -> float:
        """User and system time of the command and what it waited for; of what a driver starts, with that alone under
        the allocator."""
        command = [word.replace("SHRINK", str(shrink)) for word in self.command]
        if not self.is_driver:
            return cpu_seconds(command, subject.environment(allocators))
        with tempfile.TemporaryDirectory(prefix="cost-") as folder:
            environment = subject.driver_environment(allocators)
            told = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if told.returncode != 0:
            sys.exit(f"{Path(command[1]).name} ended with {told.returncode}: {told.stderr}")
        return float(json.loads(told.stdout)["cpu_seconds"])


SOURCE = ROOT / "bench/real/inputs/templates.cc"
THE_LOT = {
    "larson, 2 threads": Workload(
        [str(WORKLOADS / "larson"), "--threads", "2", "--steps", "192000000", "--shrink", "SHRINK"], 1, 640
    ),
    "server": Workload([str(WORKLOADS / "server"), "--requests", "3200000", "--shrink", "SHRINK"], 1, 640),
    "kv_cache": Workload([str(WORKLOADS / "kv_cache"), "--shrink", "SHRINK"], 2, 40),
    "redis-server": Workload(
        [sys.executable, "-B", str(ROOT / "bench/real/redis.py"), "--shrink", "SHRINK"], 2, 80, is_driver=True
    ),
    "g++ -fsyntax-only": Workload(["g++", "-std=c++20", "-fsyntax-only", str(SOURCE)], 1, None),
}
PROFILED: tuple[Subject, ...] = (*WITH, SAMPLED)
BUSY = 0.08  # of the machine used by others from which on a run is not quiet, as in bench/lab


def cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    """User and system time of the command and what it waited for."""
    with tempfile.TemporaryDirectory(prefix="cost-") as folder:
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=nothing, stderr=nothing)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{Path(command[0]).name} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


Seconds = list[list[float]]  # CPU time with a profile and without, of each repeat


def measure(repeats: int, seed: int) -> Iterator[tuple[dict[str, dict[str, Seconds]], float]]:
    """After each repeat: by workload and subject, and the share of the machine that others used meanwhile."""
    allocators, order = known(), random.Random(seed)
    found: dict[str, dict[str, Seconds]] = {name: {} for name in THE_LOT}
    foreign = ForeignCpu()
    for repeat in range(repeats):
        for name, workload in THE_LOT.items():
            by = {s.name: workload.less if "HEAPPROFILE" in s.variables else workload.usual for s in PROFILED}
            pairs = [(s, shrink) for s in PROFILED if (shrink := by[s.name]) is not None]
            runs = list({(one.name, shrink): (one, shrink) for s, shrink in pairs for one in (s, s.off())}.values())
            order.shuffle(runs)
            seconds = {(s.name, shrink): workload.cpu_seconds(shrink, s, allocators) for s, shrink in runs}
            for s, shrink in pairs:
                found[name].setdefault(s.name, []).append([seconds[s.name, shrink], seconds[s.off().name, shrink]])
        print(f"\r{repeat + 1} of {repeats}", end="" if repeat + 1 < repeats else "\n", flush=True)
        yield found, foreign.share()


def summary(seconds: Seconds) -> str:
    """The median ratio, and what it lies between."""
    if not seconds:
        return "–"
    ratios = [with_profile / without for with_profile, without in seconds]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def in_seconds(seconds: Seconds) -> str:
    """Medians: without a profile, and with one."""
    without, with_profile = (statistics.median(pair[i] for pair in seconds) for i in (1, 0))
    return f"{without:.2f} → {with_profile:.2f}"
