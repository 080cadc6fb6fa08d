# SPDX-License-Identifier: MIT
#
# goals.py: what the flagship set out to reach and no single metric's target says: counts, absolute amounts, the means.
"""Goals beside the workloads' targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.report.lineup import FLAGSHIP, GLIBC, peers
from harness.report.measured import Measured
from harness.report.papers.table import At
from harness.report.words import NOT_MEASURED, number, ratio
from harness.statistics import median
from harness.workload import WALL_NS

MeansOf = Callable[[str], dict[str, float]]  # a column of the means: each allocator's


@dataclass(frozen=True)
class Goal:
    """A goal and whether it was reached; None: not measured."""

    label: str
    wanted: str
    found: str
    met: bool | None


def _at_most(label: str, most: float, value: float | None, unit: str = "") -> Goal:
    found = NOT_MEASURED if value is None else f"{number(value)}{unit}"
    return Goal(label, f"at most {number(most)}{unit}", found, None if value is None else value <= most)


def _value(measured: Measured, workload: str, key: str, allocator: str = FLAGSHIP) -> float | None:
    found = At(workload, allocator, None, key).values(measured)
    return median(list(found.values())) if found else None


def _instructions(measured: Measured) -> float | None:
    """Of the fast path, entry to return; valgrind offers no rseq, so the disassembly is what counts."""
    counts = [c for c in measured.results.counts if c.allocator == FLAGSHIP and c.pair == "malloc(32) + free"]
    return next((c.instructions for c in counts if "disassembly" in c.source), None)


def _remote_rmw(measured: Measured) -> float | None:
    counts = [c for c in measured.results.counts if c.allocator == FLAGSHIP and c.pair == "remote_free"]
    return next((c.locked_rmw for c in counts if c.locked_rmw is not None), None)


def _oversubscribed(measured: Measured) -> Goal:
    few, many = (_value(measured, name, WALL_NS) for name in ("few-threads", "many-threads"))
    label, wanted = "throughput of 256 threads, of that of 2", "at least 0.95"
    if not few or not many:
        return Goal(label, wanted, NOT_MEASURED, None)
    return Goal(label, wanted, ratio(few / many), few / many >= 0.95)


def _mean(measured: Measured, label: str, column: dict[str, float], below: bool) -> Goal:
    others = {name: value for name, value in column.items() if name in peers(measured.allocators)}
    wanted = "below every peer's" if below else "at most the best peer's"
    if FLAGSHIP not in column or not others:
        return Goal(label, wanted, NOT_MEASURED, None)
    best, ours = min(others, key=lambda name: others[name]), column[FLAGSHIP]
    met = ours < others[best] if below else ours <= others[best]
    return Goal(label, wanted, f"{ratio(ours)}, {best} {ratio(others[best])}", met)


def goals(measured: Measured, means_of: MeansOf) -> list[Goal]:
    """All of them."""
    hello, glibc = (_value(measured, "startup", "hello_anonymous_kib", name) for name in (FLAGSHIP, GLIBC))
    return [
        _mean(measured, "geometric mean of time", means_of("time / best"), below=True),
        _mean(measured, "geometric mean of peak RSS", means_of("peak RSS / best"), below=False),
        _at_most("instructions of malloc(32) + free", 35, _instructions(measured)),
        _at_most("locked read-modify-writes for a block freed by another thread", 0.06, _remote_rmw(measured)),
        _at_most("pages copied when a forked child frees 90 %", 100, _value(measured, "fork", "pages_copied")),
        _oversubscribed(measured),
        _at_most("anonymous RSS of “hello, world”", (glibc or 0) + 128, hello if glibc else None, " KiB"),
        _at_most("RSS after a random 90 % was freed and malloc_trim, over its bound", 1.02,
                 _value(measured, "rss", "trim_over_bound")),
    ]  # fmt: skip
