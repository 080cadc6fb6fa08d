# SPDX-License-Identifier: MIT
#
# count.py: what does not vary is counted once instead of timed.
#
#   instructions   of a malloc/free pair, by callgrind: pair_count with N and with 2N pairs, the difference less what
#                  the loop costs. Valgrind offers no restartable sequences, so this shows Freeway's path without them;
#                  the one with them is read from the disassembly (golden/fast_path.json, which a test guards).
#   locked_rmw     locked read-modify-writes of an operation, from builds of our engines that count them
#                  (bench/peers/README.md): each extra figure of the program rmw_count is one kind of operation.
"""Counts instructions and locked read-modify-writes of single operations."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.allocators import FREEWAY, ROOT, Allocator
from harness.results import Count

PAIRS = 32_000
RETURNS = 2  # of the function in the loop's place, which counted as loop
KINDS = {  # what pair_count does: the loop to subtract, and what it is called
    "pair-32": ("nothing", "malloc(32) + free"),
    "pair-1024": ("nothing", "malloc(1024) + free"),
    "batch-32": ("nothing-batch", "32 x malloc(32), then 32 x free; a pair"),
}
CALLGRIND, DISASSEMBLY, COUNTED = "callgrind", "disassembly of the fast path", "counted build"
TIMEOUT_S = 300
USUAL_KEYS = {"name", "ops", "seconds", "cpu_seconds", "checksum", "rss_peak_kib", "vm_peak_kib",
              "minor_faults"}  # fmt: skip


class CountError(Exception):
    """One allocator could not be counted; the message says why."""


def collected(program: Path, kind: str, pairs: int, allocator: Allocator) -> int:
    """All instructions of one run."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), kind, str(pairs)]
    environment = allocator.environment()
    if allocator.library:
        environment["LD_PRELOAD"] = str(allocator.library)
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise CountError(f"hung under valgrind ({TIMEOUT_S} s)") from None
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise CountError(f"failed under valgrind: {done.stderr.strip().splitlines()[-1:]}")
    return int(found[1])


def instructions_each(program: Path, kind: str, allocator: Allocator) -> float:
    """Instructions of one pair, from entry to return of both functions."""
    loop, _ = KINDS[kind]
    whole, empty = (
        collected(program, each, 2 * PAIRS, allocator) - collected(program, each, PAIRS, allocator)
        for each in (kind, loop)
    )
    return round((whole - empty) / PAIRS + RETURNS, 1)


def golden_pair() -> float | None:
    """Instructions of the flagship's pair with restartable sequences."""
    golden = json.loads((ROOT / "tests/whole/golden/fast_path.json").read_text()).get(platform.machine())
    return golden["malloc"] + golden["free"] if golden else None


def instruction_counts(build: Path, allocators: Sequence[Allocator], run: str) -> Iterator[Count | CountError]:
    """For each allocator and kind a count, or why there is none."""
    program = build / "bench/workloads/pair_count"
    if not program.exists() or shutil.which("valgrind") is None:
        yield CountError("instructions are not counted: valgrind or pair_count (target freeway_bench) is missing")
        return
    for allocator in allocators:
        if allocator.name == FREEWAY:
            if (pair := golden_pair()) is not None:
                yield Count(run, KINDS["pair-32"][1], allocator.name, instructions=pair, source=DISASSEMBLY)
            continue
        try:
            for kind, (_, name) in KINDS.items():
                figure = instructions_each(program, kind, allocator)
                yield Count(run, name, allocator.name, instructions=figure, source=CALLGRIND)
        except CountError as error:
            yield CountError(f"{allocator.name}: {error}")


def rmw_counts(build: Path, run: str) -> Iterator[Count | CountError]:
    """For each counting library of the build and each kind of operation a count."""
    program = build / "bench/workloads/rmw_count"
    libraries = sorted(build.glob("libfreeway*-counted.so"))
    if not program.exists() or not libraries:
        yield CountError("locked instructions are not counted: no counting builds (target freeway_counted)")
        return
    for library in libraries:
        name = library.name[len("lib") : -len("-counted.so")].removeprefix(f"{FREEWAY}-")
        environment = {**Allocator(name, library).environment(), "LD_PRELOAD": str(library)}
        done = subprocess.run(
            [str(program)], env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        if done.returncode != 0:
            yield CountError(f"{name}: rmw_count ended with status {done.returncode}: {done.stderr.strip()[-200:]}")
            continue
        for key, value in json.loads(done.stdout).items():
            if key not in USUAL_KEYS and isinstance(value, int | float):
                yield Count(run, key, name, locked_rmw=round(float(value), 4), source=COUNTED)
