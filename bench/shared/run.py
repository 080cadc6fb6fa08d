#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Heaps that processes share, beside each other: `run.py throughput|recovery`.

throughput  pairs and a mixed workload, of 1 to 16 processes. In each repeat all heaps run one after the other, in
            another order each time; ratios are those within a repeat: their median, the smallest and the largest
recovery    how long a dead process takes to be recovered, by the size of the heap
Both print Markdown. They need the targets workload_shared_* (README.md).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.machine import ForeignCpu

WORKLOADS = Path(__file__).resolve().parents[2] / "build/release/bench/workloads"
HEAPS = {"freeway": "Freeway", "boost": "Boost.Interprocess", "pmemobj": "libpmemobj (threads)"}
WORKS = ("pairs", "mixed")


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def measured(program: str, **arguments: object) -> dict[str, Any]:
    """What a program says in its line of JSON."""
    words = [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
    done = subprocess.run([WORKLOADS / f"shared_{program}", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"shared_{program} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def ratio(ours: list[float], theirs: list[float]) -> str:
    """The median of ratios of the same repeat, and what it lies between."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}\N{EN DASH}{max(ratios):.2f})"


def throughput(options: argparse.Namespace) -> None:
    """Operations a second, CPU time an operation, and how Freeway's are to each of the others'."""
    heaps = [name for name in HEAPS if (WORKLOADS / f"shared_{name}").exists()]
    order = random.Random(options.seed)
    found: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for _ in range(options.repeat):
        for work in WORKS:
            for processes in options.processes:
                for heap in order.sample(heaps, len(heaps)):
                    result = measured(heap, work=work, processes=processes, operations=options.operations)
                    found.setdefault((work, processes, heap), []).append(result)
    others = [heap for heap in heaps if heap != "freeway"]
    head = ["work", "processes", *(f"{HEAPS[heap]}: 1000/s (CPU ns)" for heap in heaps)]
    head += [f"Freeway / {HEAPS[heap]}" for heap in others]
    rows = []
    for work in WORKS:
        for processes in options.processes:
            speeds = {heap: [r["operations_per_s"] for r in found[work, processes, heap]] for heap in heaps}
            row = [work, str(processes)]
            for heap in heaps:
                cpu = statistics.median(r["cpu_ns"] for r in found[work, processes, heap])
                row.append(f"{statistics.median(speeds[heap]) / 1000:.0f} ({cpu:.0f})")
            rows.append(row + [ratio(speeds["freeway"], speeds[heap]) for heap in others])
    print(table(head, rows))


def recovery(options: argparse.Namespace) -> None:
    """Times by MiB of live blocks."""
    rows = []
    for mib in options.mib:
        found = measured("recovery", mib=mib, deaths=options.deaths)
        rows.append(
            [
                f"{mib}",
                f"{found['blocks']}",
                f"{found['median_ms']:.2f}",
                f"{found['longest_ms']:.2f}",
                f"{found['lost']}",
            ]
        )
    print(table(["MiB", "blocks", "median ms", "longest ms", "bytes lost"], rows))


def main() -> None:
    """Measures what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("throughput", "recovery"))
    parser.add_argument("--repeat", type=int, default=7, help="of each workload (throughput)")
    parser.add_argument("--operations", type=int, default=4000000, help="of all processes together (throughput)")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument(
        "--mib", type=int, nargs="+", default=[16, 64, 256, 1024, 4096], help="of live blocks (recovery)"
    )
    parser.add_argument("--deaths", type=int, default=9, help="for each size (recovery)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs (throughput)")
    options = parser.parse_args()
    foreign = ForeignCpu()
    {"throughput": throughput, "recovery": recovery}[options.what](options)
    print(f"Others used {foreign.share():.0%} of the machine meanwhile.")


if __name__ == "__main__":
    main()
