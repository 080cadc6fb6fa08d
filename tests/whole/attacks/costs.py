# SPDX-License-Identifier: MIT
"""What each allocator costs: CPU time and peak memory of a few programs, taken in turns."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.allocators import Allocator

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 300
# Programs of bench/workloads, and a compiler. Short ones: in turns, what disturbs the machine disturbs all of them.
COMPILED = "tests/whole/programs/sources/compile_me.cc"
PROGRAMS: dict[str, tuple[str, ...]] = {
    "one pair of 32 bytes": ("lifo_pair",),
    "random replacement": ("random_replace", "--threads", "1", "--steps", "4000000"),
    "g++ of a C++ file": ("g++", "-std=c++20", "-O0", "-S", COMPILED, "-o", "/dev/null"),
}
Costs = dict[str, dict[str, dict[str, list[float]]]]  # program -> allocator -> cpu_s, rss_kib -> samples


def command_of(program: tuple[str, ...], build: Path) -> list[str]:
    """With the workload's place."""
    workload = build / "bench/workloads" / program[0]
    found = str(workload) if workload.exists() else shutil.which(program[0])
    if found is None:
        sys.exit(f"no {program[0]}: build the target freeway_bench, or install it")
    return [found, *program[1:]]


def sample(allocator: Allocator, command: list[str], build: Path) -> tuple[float, float]:
    """CPU seconds and peak KiB of one run (of its biggest process)."""
    with tempfile.TemporaryDirectory(prefix="freeway-attacks-") as folder:
        result = Path(folder) / "result.json"
        preload = str(allocator.library) if allocator.library else "-"
        argv = [str(build / "bench/measured_run"), str(result), preload, *command]
        done = subprocess.run(
            argv, env=allocator.environment(), capture_output=True, cwd=ROOT, timeout=TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            sys.exit(f"{allocator.name}: {' '.join(command)}: status {done.returncode}\n{done.stderr.decode()}")
        used = json.loads(result.read_text())
    return used["user_s"] + used["system_s"], used["rss_peak_kib"]


def measure(allocators: list[Allocator], build: Path, repeats: int) -> Costs:
    """All programs under all allocators, `repeats` rounds."""
    costs: Costs = {
        name: {allocator.name: {"cpu_s": [], "rss_kib": []} for allocator in allocators} for name in PROGRAMS
    }
    for turn in range(repeats):
        for name, program in PROGRAMS.items():
            command = command_of(program, build)
            # Nobody is always the first.
            for allocator in (*allocators[turn % len(allocators) :], *allocators[: turn % len(allocators)]):
                cpu_s, rss_kib = sample(allocator, command, build)
                costs[name][allocator.name]["cpu_s"].append(round(cpu_s, 4))
                costs[name][allocator.name]["rss_kib"].append(rss_kib)
        print(f"costs: round {turn + 1} of {repeats}", flush=True)
    return costs
