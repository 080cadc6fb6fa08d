# SPDX-License-Identifier: MIT
#
# pulse.py: `lab pulse`, a minute of figures that are taken at one commit after the other and kept, a line of JSON each:
#   {"commit": first digits, "+" behind them if tracked files were changed, "" outside git; "at": UTC; "machine": {...},
#    "library": version and content of Freeway's; "load": of the minute before; "foreign_cpu": share, median of all
#    samples; "repeats": n; "instructions": {path: n}, {} on processors without golden counts;
#    "ratios": {"workload.metric": [median, low, high]}; "hello_kib": {allocator: KiB}}
# Ratios are Freeway's cost over that of glibc's malloc, paired and with their interval (statistics.py).
"""A few figures of each commit: instructions of the fast path, ratios to glibc's malloc, memory of a small program."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from harness import machine
from harness.allocators import FREEWAY, GLIBC, ROOT, Allocator, known_allocators
from harness.catalogue import workloads
from harness.launch import launch
from harness.plan import Item
from harness.progress import RunProgress
from harness.results import OK, Case, Results, ResultsError, Run, Writer, read
from harness.runner import Runner
from harness.sampling import Bench
from harness.statistics import paired_ratios, ratio_interval
from harness.workload import Metric

LINES = ROOT / "bench/results/over-time/pulse.jsonl"
PICTURE = ROOT / "docs/pulse.svg"
WORKLOADS = ("lifo", "batch", "random-1", "spill-16-reversed", "prodcons")
REPEATS = 9  # 40 s on 2 CPUs; more when they are busy, for a sample is never cut short
HELLO_REPEATS = 15
HELLO_TIMEOUT_S = 60
COUNTS = ROOT / "tests/whole/golden/fast_path.py"
KEYS = {"commit", "at", "machine", "foreign_cpu", "instructions", "ratios", "hello_kib"}  # that the picture needs
FACTS = ("cpus", "model", "kernel", "libc", "compiler", "virtual")


def metrics() -> list[tuple[Case, Metric]]:
    """What is compared: the times of each workload."""
    return [(Case(name), metric) for name in WORKLOADS for metric in workloads()[name].metrics if metric.timing]


def instructions(library: Path) -> dict[str, int]:
    """Of each fast path, as tests/whole/golden counts them, also if they are too many. Raises ResultsError."""
    done = subprocess.run(
        [sys.executable, "-B", COUNTS, "--library", library], capture_output=True, text=True, check=False
    )
    said = done.stdout.strip().splitlines()[-1:]
    if said and said[0].startswith("no golden numbers"):
        return {}
    found = {name: int(count) for name, count in re.findall(r"(\w+) (\d+)(?=,| instructions)", "".join(said))}
    if not found:
        raise ResultsError(f"the fast path's instructions could not be counted: {(done.stdout + done.stderr).strip()}")
    return found


def peak_kib(build: Path, allocator: Allocator) -> int:
    """VmHWM of a program that prints one line, KiB."""
    with tempfile.TemporaryDirectory(prefix="freeway-lab-") as name:
        result = Path(name) / "result"
        command = [build / "bench/measured_run", result, allocator.library or "-", build / "bench/workloads/hello"]
        ended = launch([str(word) for word in command], allocator.environment(), HELLO_TIMEOUT_S, Path(name))
        if ended.status != 0 or ended.hung or ended.stderr:
            raise ResultsError(f"hello under {allocator.name} ended with {ended.status}: {ended.stderr.strip()}")
        return int(json.loads(result.read_text())["rss_peak_kib"])


def hello_kib(build: Path, allocators: Sequence[Allocator]) -> dict[str, int]:
    """The median for each allocator; they take turns."""
    taken = [{each.name: peak_kib(build, each) for each in allocators} for _ in range(HELLO_REPEATS)]
    return {each.name: round(statistics.median(turn[each.name] for turn in taken)) for each in allocators}


def ratios(results: Results) -> dict[str, list[float]]:
    """Median and interval of each comparison; ResultsError for one that nothing was measured of, or that went wrong."""
    for sample in results.samples:
        if sample.status != OK:
            raise ResultsError(f"{sample.case} under {sample.allocator}: {sample.status}: {sample.detail}")
    found = {}
    for case, metric in metrics():
        pairs = paired_ratios(*(results.figures(metric, case, name) for name in (FREEWAY, GLIBC)))
        if not pairs:
            raise ResultsError(f"{case}: nothing was measured of {metric.label}")
        ratio = ratio_interval(pairs)
        found[f"{case}.{metric.key}"] = [round(each, 4) for each in (ratio.median, ratio.low, ratio.high)]
    return found


def take(build: Path, samples: Path, repeats: int = REPEATS) -> dict[str, Any]:
    """Measures; the line. What the ratios are made from is in `samples` then. ResultsError if anything failed."""
    known = known_allocators(build)
    allocators = tuple(known[name] for name in (GLIBC, FREEWAY))
    bench = Bench(build, datetime.now(UTC).isoformat(timespec="seconds"))
    plan = [Item(workloads()[name], Case(name), allocators, repeats) for name in WORKLOADS]
    needed = [build / "libfreeway.so", build / "bench/measured_run", build / "bench/workloads/hello"]
    for path in (*needed, *(bench.program(item.workload) for item in plan)):
        if not path.exists():
            raise ResultsError(f"there is no {path}: `make pulse` builds it")
    facts, load = machine.facts(build), os.getloadavg()[0]
    machine.raise_priority()
    samples.unlink(missing_ok=True)
    console = Console(stderr=True, highlight=False)
    with Writer(samples) as writer, RunProgress(console, repeats * len(plan) * len(allocators)) as progress:
        writer.write(Run(bench.run, "pulse", repeats, 1, facts, tuple(a.record() for a in allocators), WORKLOADS))
        Runner(bench, writer, progress, retries=0).run(plan)
    results = read(samples)
    return {
        "commit": machine.commit(),
        "at": bench.run,
        "machine": {name: facts[name] for name in FACTS},
        "library": known[FREEWAY].version,
        "load": round(load, 1),
        "foreign_cpu": round(statistics.median(sample.foreign_cpu for sample in results.samples), 2),
        "repeats": repeats,
        "instructions": instructions(build / "libfreeway.so"),
        "ratios": ratios(results),
        "hello_kib": hello_kib(build, allocators),
    }


def kept(path: Path = LINES) -> list[dict[str, Any]]:
    """The lines there are, in the order of the time at which they were taken. ResultsError for one that is none."""
    lines = []
    for number, text in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        try:
            line = json.loads(text)
            missing = KEYS - line.keys()
        except (ValueError, AttributeError) as error:
            raise ResultsError(f"{path}, line {number}: not a line of figures ({error})") from None
        if missing:
            raise ResultsError(f"{path}, line {number}: no {', '.join(sorted(missing))}")
        lines.append(line)
    return sorted(lines, key=lambda line: line["at"])


def append(line: dict[str, Any], path: Path = LINES) -> str:
    """Adds the line to the file; its text."""
    text = json.dumps(line, separators=(",", ":"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text + "\n")
    return text
