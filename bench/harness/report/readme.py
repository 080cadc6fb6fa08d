# SPDX-License-Identifier: MIT
#
# readme.py: the README's few figures, in the units of the measurement: glibc, the flagship, the best of the others.
"""The README's table."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.lineup import FLAGSHIP, GLIBC, peers
from harness.report.measured import Measured
from harness.report.summary import BEST_PEER, Mean, mean
from harness.report.words import NOT_MEASURED, number, ratio
from harness.results import Case
from harness.workload import CPU_NS, CPU_S, PEAK_RSS, Metric


@dataclass(frozen=True)
class Row:
    """A figure of a workload, and the unit that it is shown in: so many of the metric's own."""

    label: str
    workload: str
    key: str
    unit: str
    of_own: float = 1


ROWS = (
    Row("redis: CPU time a request", "redis", CPU_NS, "µs", 1000),
    Row("redis: peak memory", "redis", PEAK_RSS.key, "MiB", 1024),
    Row("g++ compiles a C++ file: CPU time", "gxx", CPU_S, "s"),
    Row("64 threads (larson): CPU time of one free and malloc", "larson-64", CPU_NS, "ns"),
)
REAL = "real"
NO_BREAK = "\u00a0"


def table(measured: Measured) -> str:
    """The table in Markdown. Rows without a figure are left out."""
    lines = [f"| | glibc | {FLAGSHIP.capitalize()} | best of the others |", "|---|---:|---:|---:|"]
    lines += [found for row in ROWS if (found := _line(measured, row))]
    names = {name for run in measured.results.runs if run.suite == REAL for name in run.workloads}
    programs = [case for case in measured.cases if case.workload in names]
    if programs:
        ours, best = (
            " / ".join(_of(mean(measured, programs, FLAGSHIP, other, rss)) for rss in (False, True))
            for other in (GLIBC, BEST_PEER)
        )
        count = len({case.workload for case in programs})
        lines.append(
            f"| {count} real programs, geometric mean: CPU time / peak memory | 1 / 1 | {ours} "
            f"| {best} of the best in each program |"
        )
    return "\n".join(lines) + "\n"


def metric_of(measured: Measured, row: Row) -> Metric:
    """The metric that a row shows; every workload has its peak memory."""
    declared = (*measured.workload(row.workload).metrics, PEAK_RSS)
    return next((each for each in declared if each.key == row.key), Metric(row.key, row.key))


def _line(measured: Measured, row: Row) -> str:
    cases = measured.cases_of(row.workload)
    if not cases:
        return ""
    metric, case = metric_of(measured, row), cases[0]
    others = [name for name in peers(measured.allocators) if name != GLIBC]
    ours, libc = (_figure(measured, metric, case, name, row) for name in (FLAGSHIP, GLIBC))
    found = measured.ratio(metric, case, FLAGSHIP, GLIBC)
    best = measured.best(metric, case, others)
    theirs = f"{best} {_figure(measured, metric, case, best, row)}" if best else NOT_MEASURED
    return f"| {row.label} | {libc} | {ours} ({ratio(found.median) if found else '–'} of glibc's) | {theirs} |"


def _figure(measured: Measured, metric: Metric, case: Case, name: str, row: Row) -> str:
    found = measured.quartiles(metric, case, name)
    return f"{number(found.median / row.of_own)}{NO_BREAK}{row.unit}" if found else NOT_MEASURED


def _of(found: Mean) -> str:
    return ratio(found.ratio.median) if found.ratio else "–"
