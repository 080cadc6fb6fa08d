# SPDX-License-Identifier: MIT
#
# report.py: the table of `make run`, and Freeway's own summary of a run.
"""Tables of the demonstration."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.measure import Usage

Runs = dict[str, list[Usage]]  # by malloc; run i of one belongs beside run i of the other
MEASURES: tuple[tuple[str, Callable[[Usage], float], str], ...] = (
    ("wall time", lambda used: used.wall, "s"),
    ("CPU time", lambda used: used.cpu, "s"),
    ("peak RSS", lambda used: used.peak_rss_mib, "MiB"),
)
TOP_CLASSES = 8


def console() -> Console:
    """Standard output; no colours or narrow wrapping where it is not a terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=100)


def table(title: str, results: dict[str, Runs], base: str, ours: str) -> Table:
    """For each program: medians under both mallocs and the median of the ratios of runs that belong together."""
    made = Table(title=title, title_justify="left")
    made.add_column("program")
    made.add_column("")
    for name in (base, ours, "ratio"):
        made.add_column(name, justify="right", no_wrap=True)
    for program, runs in results.items():
        made.add_section()
        for i, (label, of, unit) in enumerate(MEASURES):
            pairs = [(of(a), of(b)) for a, b in zip(runs[base], runs[ours], strict=True)]
            ratio = statistics.median(b / a if a > 0 else 1.0 for a, b in pairs)
            values = (statistics.median(side) for side in zip(*pairs, strict=True))
            cells = [f"{value:.{3 if value < 0.1 else 2}f} {unit}" for value in values]
            made.add_row(program if i == 0 else "", label, *cells, f"{ratio:.2f}")
    return made


def size(amount: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable")


def summary(path: Path) -> Sequence[str]:
    """Freeway's account of one process, in lines, from what FREEWAY_STATS=json:PATH wrote."""
    stats: dict[str, Any] = json.loads(path.read_text())
    lines = [
        f"live at exit {size(stats['live'])} in {stats['live_blocks']:,} blocks; cached {size(stats['cached'])}; "
        f"free in {stats['superblocks']} superblocks {size(stats['free_in_superblocks'])}",
        f"mapped {size(stats['mapped'])}, of it huge {size(stats['huge'])}; metadata {size(stats['metadata'])}; "
        f"given back {size(stats['purged'])} in {stats['purges']} purges",
        f"left the fast path: {stats['slow_mallocs']:,} mallocs, {stats['slow_frees']:,} frees; batches in "
        f"{stats['refills']:,}, out {stats['flushes']:,}",
    ]
    busiest = sorted(stats["classes"], key=lambda c: c["slow_mallocs"] + c["slow_frees"], reverse=True)
    sizes = ", ".join(f"{c['size']} B" for c in busiest[:TOP_CLASSES] if c["slow_mallocs"] + c["slow_frees"])
    return [*lines, f"classes that left it most: {sizes}"] if sizes else lines
