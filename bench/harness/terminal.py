# SPDX-License-Identifier: MIT
"""The summary of a results file as tables for the terminal. What it says comes from harness.report.summary."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.report.lineup import FLAGSHIP, GLIBC, peers
from harness.report.measured import Measured
from harness.report.summary import compared, failures, means, warnings, worst
from harness.results import Case, Results
from harness.statistics import Quartiles, Ratio
from harness.workload import Metric

NARROW = 8  # so many allocators at most are shown with their figures
COLUMN_WIDTH = 16


def number(value: float) -> str:
    """Three significant figures, no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def quartiles_text(figures: Quartiles | None) -> str:
    """The median and, from three samples on, the quartiles."""
    if figures is None:
        return "-"
    spread = f" [dim]{number(figures.low)}-{number(figures.high)}[/dim]" if figures.count >= 3 else ""
    return number(figures.median) + spread


def ratio_text(ratio: Ratio | None) -> str:
    """A ratio with its interval."""
    if ratio is None:
        return "-"
    return f"{ratio.median:.3f} [dim]{ratio.low:.3f}-{ratio.high:.3f}[/dim]"


def rows_of(measured: Measured) -> list[tuple[Case, Metric]]:
    """Every metric of every row that was measured."""
    return [
        (case, metric)
        for workload in measured.workloads
        for case in measured.cases_of(workload.name)
        for metric in workload.metrics
    ]


def label(case: Case, metric: Metric) -> str:
    """A row's first cell."""
    return escape(f"{case}: {metric.label}")


def figures_table(measured: Measured) -> Table:
    """The figures themselves."""
    table = Table(title="Medians (quartiles)", title_justify="left")
    table.add_column("workload")
    for name in measured.allocators:
        table.add_column(name, justify="right", no_wrap=True)
    for case, metric in rows_of(measured):
        cells = [quartiles_text(measured.quartiles(metric, case, name)) for name in measured.allocators]
        table.add_row(f"{label(case, metric)} [dim]{metric.unit}[/dim]", *cells)
    return table


def ratios_table(measured: Measured) -> Table:
    """Each allocator's cost as a multiple of the best, and the flagship's of the best peer beside its target."""
    table = Table(title="Ratios to the best in each row (bold: the best)", title_justify="left")
    table.add_column("workload")
    for name in measured.allocators:
        table.add_column(name, justify="right", no_wrap=True)
    with_peers = FLAGSHIP in measured.allocators and bool(peers(measured.allocators))
    if with_peers:
        table.add_column(f"{FLAGSHIP} / best peer", justify="right", no_wrap=True)
        table.add_column("target", justify="right")
    against = {(row.case, row.metric): row for row in compared(measured)} if with_peers else {}
    for case, metric in rows_of(measured):
        best = measured.best(metric, case, measured.allocators)
        cells = []
        for name in measured.allocators:
            ratio = measured.ratio(metric, case, name, best) if best else None
            text = f"{ratio.median:.2f}" if ratio else "-"
            cells.append(f"[bold]{text}[/bold]" if name == best else text)
        if with_peers:
            row = against.get((case, metric))
            mark = {True: "green", False: "red", None: "default"}[row.met if row else None]
            cells.append(f"[{mark}]{ratio_text(row.ratio)} {row.peer}[/]" if row else "-")
            cells.append(f"{metric.target:.2f} {'met' if row.met else 'missed'}" if row and metric.target else "")
        table.add_row(label(case, metric), *cells)
    return table


def means_table(measured: Measured) -> Table | None:
    """The geometric means, the fastest first."""
    rows = means(measured)
    if not rows:
        return None
    table = Table(title="Geometric means over the workloads, each counting once", title_justify="left")
    table.add_column("allocator")
    for column in rows[0].means:
        table.add_column(column, justify="right")
    table.add_column("workloads", justify="right")
    for row in rows:
        counts = [str(each.workloads) for each in row.means.values()]
        name = f"[bold]{row.allocator}[/bold]" if row.allocator == FLAGSHIP else row.allocator
        table.add_row(name, *[ratio_text(each.ratio) for each in row.means.values()], max(counts, key=int))
    return table


def winners(measured: Measured) -> list[str]:
    """Who is best in how many rows of the main figures."""
    won: dict[str, int] = {}
    for workload in measured.workloads:
        for case in measured.cases_of(workload.name):
            best = measured.best(workload.metrics[0], case, measured.allocators)
            if best:
                won[best] = won.get(best, 0) + 1
    ranked = sorted(won.items(), key=lambda item: -item[1])
    return [f"{name} {count}" for name, count in ranked]


def print_summary(results: Results, source: Path) -> None:
    """Everything, on standard output; wide enough not to wrap when that is a file."""
    measured = Measured(results)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=90 + COLUMN_WIDTH * len(measured.allocators))
    if len(measured.allocators) <= NARROW:
        console.print(figures_table(measured))
    console.print(ratios_table(measured))
    table = means_table(measured)
    if table:
        console.print(table)
    if won := winners(measured):
        console.print(f"Best in the main figure: {', '.join(won)}", soft_wrap=True)
    for row in worst(compared(measured)):
        console.print(
            f"{FLAGSHIP} is behind {row.peer} in {label(row.case, row.metric)}: "
            f"{number(row.ours)} to {number(row.theirs)} {row.metric.unit}, {ratio_text(row.ratio)}",
            soft_wrap=True,
        )
    for record in results.allocators.values():
        if record.failed:
            console.print(f"[yellow]not measured: {record.name}: {escape(record.failed)}[/yellow]", soft_wrap=True)
    for failure in failures(measured):
        text = f"{failure.case} under {failure.allocator}: {failure.status} {failure.times} of {failure.of}"
        console.print(f"[red]{escape(text)}: {escape(failure.detail)}[/red]", soft_wrap=True)
    for warning in warnings(measured):
        console.print(f"[yellow]{escape(warning)}[/yellow]", soft_wrap=True)
    console.print(f"Results: {source}", soft_wrap=True)


__all__ = ["GLIBC", "print_summary", "ratio_text"]
