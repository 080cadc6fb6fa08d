# SPDX-License-Identifier: MIT
#
# page.py: the report as one HTML file: no script, no font, no picture from elsewhere. What it says is decided in
# summary.py and papers/; how it looks, in templates/.
"""The HTML page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from harness.allocators import ROOT
from harness.report import plots
from harness.report.goals import goals
from harness.report.lineup import FLAGSHIP, ordered
from harness.report.measured import Measured
from harness.report.method import METHOD, TITLES
from harness.report.papers import PAPERS
from harness.report.papers.table import text_of
from harness.report.summary import (
    MEAN_COLUMNS,
    Failure,
    MeanRow,
    compared,
    failures,
    group_of,
    heat_tables,
    means,
    means_by_suite,
    place_of,
    real_programs,
    targets,
    warnings,
    worst,
)
from harness.report.svg import Plot
from harness.report.words import NOT_MEASURED, number, ratio, slug, spread, titled, when
from harness.results import Case, Run
from harness.statistics import Quartiles
from harness.workload import PEAK_RSS, Workload
from tools.lint.measured import said_of_run

TEMPLATES = Path(__file__).parent / "templates"
HEAT_STEPS = (1.005, 1.1, 1.3, 1.7, 2.5)


def heat_class(value: float | None) -> str:
    """The style of a cell, by its ratio to the best."""
    if value is None:
        return "none"
    return f"h{next((step for step, most in enumerate(HEAT_STEPS) if value <= most), len(HEAT_STEPS))}"


@dataclass(frozen=True)
class WorkloadPart:
    """A workload's section."""

    workload: Workload
    names: list[str]
    plots: list[Plot]
    table: list[tuple[str, list[Quartiles | None]]]
    failures: list[Failure]
    threaded: bool


@dataclass(frozen=True)
class CountTable:
    """Counts of one kind: for each operation and way of counting, a figure an allocator."""

    allocators: list[str]
    rows: list[tuple[str, str, list[float | None]]]


def workload_part(measured: Measured, workload: Workload, failed: list[Failure]) -> WorkloadPart:
    """Everything the page says of one workload."""
    cases = measured.cases_of(workload.name)
    metrics = list(dict.fromkeys([*workload.metrics, PEAK_RSS]))
    rows = []
    for case in cases:
        for metric in metrics:
            cells = [measured.quartiles(metric, case, name) for name in measured.allocators]
            if any(cells):
                threads = f"{case.threads}, " if case.threads else ""
                rows.append((f"{threads}{titled(metric)}", cells))
    used = [place for place, _ in enumerate(measured.allocators) if any(cells[place] for _, cells in rows)]
    names = [measured.allocators[place] for place in used]
    table = [(label, [cells[place] for place in used]) for label, cells in rows]
    mine = [each for each in failed if each.case.workload == workload.name]
    return WorkloadPart(workload, names, _plots(measured, workload, cases), table, mine, len(cases) > 1)


def _plots(measured: Measured, workload: Workload, cases: list[Case]) -> list[Plot]:
    drawn: list[Plot | None] = []
    if len(cases) > 1:
        main = workload.metrics[0]
        drawn += [plots.scaling(measured, workload, metric) for metric in dict.fromkeys([main, PEAK_RSS])]
    elif cases:
        drawn.append(plots.dots(measured, workload, cases[0]))
    if cases:
        drawn.append(plots.rss_curves(measured, cases[-1]))
    return [plot for plot in drawn if plot]


def count_tables(measured: Measured) -> dict[str, CountTable]:
    """Instructions, then locked read-modify-writes."""
    tables = {}
    for title, what in (("Instructions", "instructions"), ("Locked read-modify-writes", "locked_rmw")):
        found = {
            (c.pair, c.source, c.allocator): getattr(c, what)
            for c in measured.results.counts
            if getattr(c, what) is not None
        }
        names = ordered({name for _, _, name in found})
        pairs = list(dict.fromkeys((pair, source) for pair, source, _ in found))
        rows = [(pair, source, [found.get((pair, source, name)) for name in names]) for pair, source in pairs]
        if rows:
            tables[title] = CountTable(names, rows)
    return tables


def environment() -> jinja2.Environment:
    """Templates with our filters. Everything is escaped but what is marked safe: our own SVG and style."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    made.filters.update(
        number=_number, ratio=ratio, spread=spread, slug=slug, heat=heat_class, code=_code, titled=titled, when=when
    )

    return made


def _number(value: object) -> str:
    return number(value) if isinstance(value, int | float) else "?"


def _code(text: str) -> Markup:
    """`names` in backticks, as Markdown has them."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _place(machine: dict[str, Any]) -> dict[str, Any]:
    """What makes it the same machine: not the priority that a run got."""
    return {key: value for key, value in machine.items() if key != "nice"}


def _machines(measured: Measured) -> list[tuple[dict[str, Any], list[Run]]]:
    """The runs by the machine they were made on, in their order."""
    found: list[tuple[dict[str, Any], list[Run]]] = []
    for run in measured.results.runs:
        known = next((runs for machine, runs in found if _place(machine) == _place(run.machine)), None)
        if known is None:
            found.append((_Known(run.machine), [run]))
        else:
            known.append(run)
    return found


def commit_of(run: Run) -> str:
    """At which commit a run was, and for a kept one what of it has changed since; "" where that is not known."""
    return said_of_run(ROOT, run.id) or (f"commit {run.commit}" if run.commit else "")


def _was_measured(measured: Measured, name: str) -> bool:
    record = measured.results.allocators.get(name)
    return record is not None and not record.failed


class _Known(dict):
    """A machine's facts: one that was not recorded is an empty text."""

    def __missing__(self, key: str) -> str:
        return ""


def context(measured: Measured) -> dict[str, Any]:
    """What page and Markdown both say."""
    results = measured.results
    rows = compared(measured)
    mean_rows, suite_rows = means(measured), means_by_suite(measured)
    return {
        "machines": _machines(measured),
        "commit_of": commit_of,
        "warnings": warnings(measured),
        "flagship": FLAGSHIP,
        "not_measured": NOT_MEASURED,
        "cpus": sorted({run.machine["cpus"] for run in results.runs if run.machine.get("cpus")}),
        "means": mean_rows,
        "real_means": real_programs(measured),
        "mean_columns": list(MEAN_COLUMNS),
        "by_suite": suite_rows,
        "suites": list(suite_rows[0].means) if suite_rows else [],
        "failures": failures(measured),
        "missing_allocators": [record for record in results.allocators.values() if record.failed],
        "allocators": [results.allocators[n] for n in measured.allocators if _was_measured(measured, n)],
        "compared": rows,
        "worst": worst(rows),
        "targets": targets(rows),
        "goals": goals(measured, lambda column: _column(mean_rows, column)),
        "winners": heat_tables(measured),
        "memory": heat_tables(measured, rss=True),
        "papers": PAPERS,
        "text_of": lambda cell: text_of(cell, measured),
        "is_measured": lambda table: table.is_measured(measured),
        "counts": count_tables(measured),
        "titles": TITLES,
        "method": METHOD,
    }


def _column(rows: list[MeanRow], column: str) -> dict[str, float]:
    return {row.allocator: row.means[column].ratio.median for row in rows if row.means[column].ratio}


def html(measured: Measured) -> str:
    """The page."""
    shared = context(measured)
    groups: dict[str, list[WorkloadPart]] = {}
    for workload in measured.workloads:
        part = workload_part(measured, workload, shared["failures"])
        groups.setdefault(group_of(workload), []).append(part)
    columns = list(MEAN_COLUMNS)
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            **shared,
            css=(TEMPLATES / "page.css").read_text(),
            means_plot=plots.geomeans(shared["means"], (columns[0], columns[2])),
            groups=dict(sorted(groups.items(), key=lambda item: place_of(item[0]))),
        )
    )
