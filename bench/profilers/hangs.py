# SPDX-License-Identifier: MIT
#
# hangs.py: runs `storm` under each subject and counts how runs end: well, by a signal, or not at all. A run hangs if
# one of its threads has not counted for PATIENCE_S; then gdb says where they stand, once a cell, and it is killed.
"""The table of hangs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness.allocators import Allocator
from subjects import BUILD, WITH, WITHOUT, Subject, known

SITUATIONS = {
    "handlers": "SIGPROF 10,000 times a second, whose handler allocates",
    "dumps": "SIGPROF 200 times a second, whose handler dumps the profile and does nothing else",
    "forks": "forks; each child allocates, dumps and ends",
    "libraries": "dlopen and dlclose, and dumps now and then",
}
PATIENCE_S, LOOK_S = 20.0, 0.25
NEEDS_A_PROFILE = ("dumps",)
FRAMES, COUNTER_BYTES = 14, 64


@dataclass
class Cell:
    """How the runs of one situation under one subject ended, and where the first that hung stood."""

    ends: Counter[str] = field(default_factory=Counter)
    stands: list[str] = field(default_factory=list)


class Watch:
    """When each counter of a run moved last: some threads may go on while another one hangs."""

    def __init__(self) -> None:
        self._seen: list[bytes] = []
        self._moved: list[float] = []

    def stands_still(self, counters: Path) -> bool:
        """Whether one of them has not moved for too long."""
        content, now = counters.read_bytes() if counters.exists() else b"", time.monotonic()
        values = [content[i : i + COUNTER_BYTES] for i in range(0, len(content), COUNTER_BYTES)] or [b""]
        if len(values) != len(self._seen):
            self._seen, self._moved = values, [now] * len(values)
        self._moved = [
            before if old == new else now for before, old, new in zip(self._moved, self._seen, values, strict=True)
        ]
        self._seen = values
        return now - min(self._moved) > PATIENCE_S


def members(group: int) -> list[int]:
    """Processes of a process group."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(after_name[2]) == group:
                    found.append(int(folder.name))
    return sorted(found)


def where(group: int) -> list[str]:
    """The functions that the threads of a hung run are in, innermost first, each different stack once."""
    stacks: list[str] = []
    for pid in members(group):
        command = ["gdb", "-q", "-batch", "-p", str(pid), "-ex", f"thread apply all bt {FRAMES}"]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            for thread in done.stdout.split("\nThread ")[1:]:
                names = re.findall(r"^#\d+\s+(?:0x\w+ in )?(<.*>|.+?)(?: \(|$)", thread, re.MULTILINE)
                stacks.append(" < ".join(re.sub(r"(?<!^)\(.*", "", name) for name in names))
    return list(dict.fromkeys(stacks))


def run_once(environment: dict[str, str], situation: str, seconds: float, look: bool) -> tuple[str, list[str]]:
    """How one run ended, and where it stood if it hung and somebody looks."""
    with tempfile.TemporaryDirectory(prefix="storm-") as folder:
        counters = Path(folder) / "counters"
        workloads = BUILD / "bench/workloads"
        command = [str(workloads / "storm"), situation, str(seconds), str(workloads / "libvisitor.so"), str(counters)]
        with (Path(folder) / "said").open("wb") as said:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=said, stderr=said, start_new_session=True
            )
        watch = Watch()
        while process.poll() is None and not watch.stands_still(counters):
            time.sleep(LOOK_S)
        hung = process.poll() is None
        stands = where(process.pid) if hung and look else []
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    if hung:
        return "hung", stands
    return ("ended" if status == 0 else f"status {status}" if status > 0 else signal.Signals(-status).name), []


def fill(cell: Cell, environment: dict[str, str], situation: str, seconds: float) -> None:
    """One more run."""
    end, stands = run_once(environment, situation, seconds, look=not cell.stands)
    cell.ends[end] += 1
    if stands and not cell.stands:
        cell.stands = stands


def run_all(runs: int, seconds: float, beside: int) -> dict[str, dict[str, Cell]]:
    """By situation and subject. `beside` runs at a time; subjects take turns, so that all see the same machine."""
    allocators: dict[str, Allocator] = known()
    subjects: tuple[Subject, ...] = (*WITH, *WITHOUT)
    cells = {situation: {subject.name: Cell() for subject in subjects} for situation in SITUATIONS}
    with ThreadPoolExecutor(beside) as pool:
        waiting = [
            pool.submit(fill, cells[situation][s.name], s.environment(allocators), situation, seconds)
            for situation in SITUATIONS
            for _ in range(runs)
            for s in subjects
            if s in WITH or situation not in NEEDS_A_PROFILE
        ]
        for number, future in enumerate(waiting, 1):
            future.result()
            print(f"\r{number} of {len(waiting)}", end="", flush=True)
    print()
    return cells
