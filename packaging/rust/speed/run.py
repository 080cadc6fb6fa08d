#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What real crates do under Rust's allocators: serde_json and syn under the system's malloc and three others.

Builds with cargo (which gets the crates from its registry), runs all programs in turn, and prints the medians of time,
CPU time and peak memory, each beside the system's. `run.py --repeat 7 --threads 4`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALLOCATORS = ("system", "freeway", "mimalloc", "jemalloc")
# Rounds: about a second each.
WORKLOADS = {"json": 60, "syntax": 400, "handed_over": 100}

Figures = tuple[float, float, float]


def measure(program: Path, workload: str, threads: int, rounds: int) -> tuple[Figures, str]:
    """Seconds, CPU seconds and MiB of the largest resident set of one run, and what it printed."""
    begin = time.monotonic()
    command = [str(program), workload, str(threads), str(rounds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - begin
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}")
    return (seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), printed


def compare(binaries: Path, workload: str, threads: int, rounds: int, repeat: int) -> None:
    """Runs one workload under all allocators, in turn, and prints a table."""
    figures: dict[str, list[Figures]] = {name: [] for name in ALLOCATORS}
    answers = set()
    for _ in range(repeat):
        for name in ALLOCATORS:
            result, printed = measure(binaries / name, workload, threads, rounds)
            figures[name].append(result)
            answers.add(printed)
    if len(answers) != 1:
        sys.exit(f"{workload}: the allocators' programs do not agree: {answers}")
    print(f"\n{workload}, {threads} threads, median of {repeat}")
    print(f"{'':10}{'seconds':>16}{'CPU seconds':>16}{'peak MiB':>16}")
    columns = {name: zip(*runs, strict=True) for name, runs in figures.items()}
    medians = {name: [statistics.median(column) for column in own] for name, own in columns.items()}
    for name in ALLOCATORS:
        cells = [f"{own:9.2f} {own / base:5.2f}x" for own, base in zip(medians[name], medians["system"], strict=True)]
        print(f"{name:10}" + "".join(f"{cell:>16}" for cell in cells))


def main() -> None:
    """Builds, measures, prints."""
    parser = argparse.ArgumentParser(description="Real crates under Rust's allocators.")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads that work at once")
    parser.add_argument("--scale", type=float, default=1.0, help="more or fewer rounds")
    arguments = parser.parse_args()
    subprocess.run(["cargo", "build", "--release"], cwd=HERE, check=True)
    binaries = HERE / "../../../build/rust/release"
    for workload, rounds in WORKLOADS.items():
        compare(binaries, workload, arguments.threads, max(1, round(rounds * arguments.scale)), arguments.repeat)


if __name__ == "__main__":
    main()
