# SPDX-License-Identifier: MIT
#
# measure.py: `lab run`, from its options to the results file: makes the plan, looks at what is missing, takes up an
# earlier file or puts it aside, and lets the runner do the rest.
"""One run of the laboratory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from rich.console import Console

from harness import machine
from harness.allocators import Allocator, known_allocators, parse
from harness.catalogue import workloads
from harness.plan import ALL, CHOSEN, SUITES, Item, chosen, make_plan
from harness.progress import RunProgress, span
from harness.results import Results, ResultsError, Run, Writer, read
from harness.runner import NOISE_RETRIES, Runner
from harness.sampling import Bench
from harness.terminal import print_summary

TYPICAL_S = 0.7  # a sample at full size, for the estimate before anything was measured
BUSY = 0.5  # load from which on it is said
INTERRUPTED = 130


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    build: Path
    output: Path
    suite: str
    only: Sequence[str] = ()
    allocators: Sequence[str] = ()
    repeats: int | None = None
    shrink: int = 1
    minutes: float | None = None
    timeout_s: float | None = None
    retries: int = NOISE_RETRIES
    resume: bool = False
    nice: bool = True


def say(console: Console, text: str) -> None:
    """One line, whole."""
    console.print(text, markup=False, soft_wrap=True)


def default_limits(suite: str) -> tuple[float | None, float | None]:
    """A suite's own limits: of the whole in minutes, of one sample in seconds."""
    return (SUITES[suite].minutes, SUITES[suite].timeout_s) if suite in SUITES else (None, None)


def aside(path: Path, results: Results) -> Path:
    """The name under which an earlier file is kept."""
    return path.with_name(f"{path.stem}-{results.runs[-1].id.replace(':', '')}{path.suffix}")


def disagreement(old: Results, machine_now: dict, shrink: int, allocators: Sequence[Allocator]) -> str | None:
    """Why a file cannot be continued, or None."""
    last = old.runs[-1]
    if last.machine != machine_now:
        changed = [key for key in machine_now if last.machine.get(key) != machine_now[key]]
        return f"it was measured on another machine, or with another setting ({', '.join(changed)})"
    if last.shrink != shrink:
        return f"it was measured with --shrink {last.shrink}"
    for allocator in allocators:
        before = old.allocators.get(allocator.name)
        if before and not before.failed and before.version != allocator.version:
            return f"{allocator.name} was {before.version or 'another build'} and is {allocator.version or 'another'}"
    return None


def plan_of(request: Request, console: Console) -> tuple[list[Item], list[Allocator]]:
    """The rows that can be measured, and all allocators that were meant. What is left out is said."""
    known = known_allocators(request.build)
    given = parse(request.allocators, known)
    everything = chosen(workloads().values(), request.only)
    cpus = len(os.sched_getaffinity(0))
    full = make_plan(request.suite, everything, known, cpus, given, request.repeats)
    named = list({a.name: a for item in full for a in item.allocators}.values())
    for allocator in named:
        if allocator.failed:
            say(console, f"not measured: {allocator.name}: {allocator.failed}")
    bench = Bench(request.build)
    plan, unbuilt = [], {}
    for item in full:
        usable = tuple(a for a in item.allocators if not a.failed)
        if not bench.program(item.workload).exists():
            unbuilt[item.workload.argv[0]] = item.workload.name
        elif usable:
            plan.append(Item(item.workload, item.case, usable, item.repeats))
    if unbuilt:
        say(console, f"not built, left out: {', '.join(unbuilt)} (target freeway_bench)")
    return plan, named


def prepare(request: Request, head: Run, allocators: Sequence[Allocator], console: Console) -> Results | None:
    """Looks at an existing results file: what to continue, or None. ResultsError if that cannot be."""
    if not request.output.exists() or request.output.stat().st_size == 0:
        return None
    old = read(request.output)
    if not request.resume:
        kept = aside(request.output, old)
        request.output.rename(kept)
        say(console, f"the earlier results are now {kept}")
        return None
    reason = disagreement(old, head.machine, request.shrink, allocators)
    if reason:
        raise ResultsError(f"cannot continue {request.output}: {reason}")
    return old


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run(request: Request) -> int:
    """Measures and prints the summary; the command's exit status."""
    console = Console(stderr=True, highlight=False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    plan, allocators = plan_of(request, console)
    if not plan:
        raise ResultsError("there is nothing to measure: no program is built, or no allocator is there")
    if not (request.build / "bench/measured_run").exists():
        raise ResultsError(f"there is no {request.build}/bench/measured_run: `make bench-quick` builds it")
    if request.nice:
        machine.raise_priority()
    facts = {**machine.facts(request.build), "nice": os.getpriority(os.PRIO_PROCESS, 0)}
    head = Run(
        datetime.now(UTC).isoformat(timespec="seconds"),
        request.suite,
        max(item.repeats for item in plan),
        request.shrink,
        facts,
        tuple(a.record() for a in allocators),
        tuple(dict.fromkeys(item.workload.name for item in plan)),
        commit=machine.commit(),
    )
    old = prepare(request, head, allocators, console)
    total = sum(item.repeats * len(item.allocators) for item in plan)
    estimate = span(total * TYPICAL_S / request.shrink + total * 0.05)
    limit = f", stopped after {request.minutes:g} min" if request.minutes else ""
    rows = f"{len(plan)} rows, {len(allocators)} allocators, {total} samples"
    say(console, f"{request.suite}: {rows}: about {estimate} if the machine is quiet{limit}")
    if (load := os.getloadavg()[0]) > BUSY:
        say(console, f"the machine is busy (load {load:.1f}): disturbed samples are taken again, which takes longer")
    bench = Bench(request.build, head.id, request.shrink, request.timeout_s)
    deadline = time.monotonic() + 60 * request.minutes if request.minutes else None
    status, complete = 0, True
    with Writer(request.output) as writer, RunProgress(console, total) as progress:
        writer.write(head)
        runner = Runner(bench, writer, progress, deadline, request.retries)
        if old:
            runner.resume(old.samples)
        try:
            complete = runner.run(plan)
        except KeyboardInterrupt:
            status = INTERRUPTED
    if status == INTERRUPTED:
        say(console, "interrupted: what was measured is kept; --resume goes on")
    elif not complete:
        say(console, f"stopped after {request.minutes:g} min; --resume goes on")
    print_summary(read(request.output), request.output)
    return status


__all__ = ["ALL", "CHOSEN", "Request", "run"]
