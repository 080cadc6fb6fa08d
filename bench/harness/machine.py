# SPDX-License-Identifier: MIT
#
# machine.py: the machine as far as figures depend on it, and how much of its CPU time others used meanwhile.
"""Machine facts, and the share of CPU time that is not ours."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import subprocess
import time
from pathlib import Path
from typing import Any

RAISED_NICE = -5
# A sample shorter than this is some ticks of the kernel's clock: its share of foreign CPU time means nothing.
SHORTEST_JUDGED_S = 0.2
ROOT = Path(__file__).resolve().parents[2]
KEPT = ("bench/results", "docs/*.svg")  # what measuring itself changes


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().strip().split("\n")[0]
    except OSError:
        return ""


def compiler(build: Path) -> str:
    """The compiler that a build folder was made with, and its version."""
    cache = build / "CMakeCache.txt"
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    if not found:
        return ""
    done = subprocess.run([found[1], "--version"], capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[0]


def commit() -> str:
    """The first digits of the commit that is checked out, "+" behind them if tracked files were changed; or "" outside
    git."""

    def git(*words: str) -> str:
        try:
            done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
        except OSError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    head = git("rev-parse", "--short=8", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *(f":!{path}" for path in KEPT))
    return f"{head}+" if head and changed else head


def raise_priority() -> int:
    """Tries to get a slightly better CPU priority, unless the user chose one; returns the one in force."""
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, RAISED_NICE)
    return os.getpriority(os.PRIO_PROCESS, 0)


def facts(build: Path) -> dict[str, Any]:
    """What two runs must have in common to be one: no name, no address, no path."""
    text = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    chosen_pages = re.search(r"\[(\w+)\]", _first_line("/sys/kernel/mm/transparent_hugepage/enabled"))
    release = re.match(r"\d+(\.\d+)*", platform.release())
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "model": model[1] if model else platform.machine(),
        "architecture": platform.machine(),
        "kernel": release[0] if release else "",
        "libc": os.confstr("CS_GNU_LIBC_VERSION") or "",
        "compiler": compiler(build),
        "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "page": os.sysconf("SC_PAGE_SIZE"),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not known",
        "transparent_huge_pages": chosen_pages[1] if chosen_pages else "not known",
        "virtual": "hypervisor" in text,
        "overcommit": _first_line("/proc/sys/vm/overcommit_memory"),
    }


def _busy_s() -> float:
    """CPU seconds of everybody since the machine started: all but idle and waiting, with what a host took away."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, _first_line("/proc/stat").split()[1:])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """CPU seconds of this process and of all that it has started and that has ended."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


class ForeignCpu:
    """Measures from its making to `share`."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _busy_s(), _own_s()

    def share(self) -> float:
        """What other processes used of the machine's whole CPU time since, 0 to 1; 0 if the time was too short."""
        wall = time.monotonic() - self._began
        if wall < SHORTEST_JUDGED_S:
            return 0.0
        foreign = (_busy_s() - self._busy) - (_own_s() - self._own)
        return min(1.0, max(0.0, foreign / (wall * (os.cpu_count() or 1))))
