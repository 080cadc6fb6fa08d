# SPDX-License-Identifier: MIT
#
# summary.py: the page's first screen as data: geometric means, who wins where, the flagship's worst places, the
# targets, and what went wrong. Nothing here knows HTML or Markdown.
"""What the results come to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.report.lineup import FLAGSHIP, GLIBC, is_ours, peers
from harness.report.measured import Cell, Measured
from harness.report.method import TITLES
from harness.report.words import titled
from harness.results import Case
from harness.statistics import Ratio, geomean_interval, median
from harness.workload import PEAK_RSS, Metric, Workload

BEST, BEST_PEER = "best", "best peer"  # stand for: whoever is best in the cell, of all or of the peers
CHOICES = {"quick", "scaling"}  # suites that choose from what other suites have
WORST_SHOWN = 5


@dataclass(frozen=True)
class Mean:
    """A geometric mean over workloads."""

    ratio: Ratio | None
    workloads: int


@dataclass(frozen=True)
class MeanRow:
    """One allocator's means, by column; the middle of its workloads' times, and in how many of them it is first."""

    allocator: str
    means: dict[str, Mean]
    middle: float | None = None
    first: int = 0


@dataclass(frozen=True)
class HeatRow:
    """One workload: each allocator's ratio to the best of them."""

    workload: Workload
    label: str  # of the figure, with its unit
    ratios: dict[str, float | None]
    best: str | None


@dataclass(frozen=True)
class Comparison:
    """The flagship beside the best peer, in one metric of one case."""

    workload: Workload
    case: Case
    metric: Metric
    peer: str
    ours: float
    theirs: float
    ratio: Ratio

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None without one."""
        return None if self.metric.target is None else self.ratio.median <= self.metric.target


@dataclass(frozen=True)
class Failure:
    """Samples of a cell that ended alike."""

    case: Case
    allocator: str
    status: str
    detail: str
    times: int
    of: int


def timing_metrics(workload: Workload) -> list[Metric]:
    """The metrics that count in a mean of times."""
    return [metric for metric in workload.metrics if metric.timing]


def field_of(measured: Measured) -> list[str]:
    """Those a mean is fair between: the flagship and the peers that were measured at all."""
    seen = {sample.allocator for sample in measured.results.samples}
    return [name for name in measured.allocators if name in seen and (name == FLAGSHIP or not is_ours(name))]


def shared_cases(measured: Measured) -> list[Case]:
    """The cases that all of the field were run in. A mean over other cases would compare different sets of workloads,
    and workloads with an interface of their own say nothing about malloc."""
    field = field_of(measured)
    return [
        case
        for case in measured.cases
        if not measured.workload(case.workload).allocators and all(measured.results.of(case, name) for name in field)
    ]


def cells_of(measured: Measured, cases: list[Case], metrics: list[Metric], reference: str) -> list[Cell]:
    """A workload's cells with whom each is compared: `reference`, or whoever is best there."""
    cells = []
    for case in cases:
        for metric in metrics:
            among = {BEST: measured.allocators, BEST_PEER: peers(measured.allocators)}
            name = measured.best(metric, case, among[reference]) if reference in among else reference
            if name:
                cells.append((metric, case, name))
    return cells


def mean(measured: Measured, cases: list[Case], allocator: str, reference: str, rss: bool = False) -> Mean:
    """The geometric mean over workloads, each counting once whatever its metrics and numbers of threads."""
    by_workload: dict[str, list[Case]] = {}
    for case in cases:
        by_workload.setdefault(case.workload, []).append(case)
    ratios = []
    for name, mine in by_workload.items():
        metrics = [PEAK_RSS] if rss else timing_metrics(measured.workload(name))
        found = measured.workload_ratios(cells_of(measured, mine, metrics, reference), allocator)
        if found:
            ratios.append(found)
    return Mean(geomean_interval(ratios) if ratios else None, len(ratios))


MEAN_COLUMNS = {
    "time / best": (BEST, False),
    f"time / {GLIBC}": (GLIBC, False),
    "peak RSS / best": (BEST, True),
    f"peak RSS / {GLIBC}": (GLIBC, True),
}


def means(measured: Measured, cases: list[Case] | None = None) -> list[MeanRow]:
    """The table of means, best time first: over the cases that the whole field ran, or over these."""
    cases = shared_cases(measured) if cases is None else cases
    to_best = _times_to_best(measured, cases)
    rows = []
    for name in measured.allocators:
        columns = {
            label: mean(measured, cases, name, reference, rss) for label, (reference, rss) in MEAN_COLUMNS.items()
        }
        if any(each.workloads for each in columns.values()):
            mine = [times[name] for times in to_best.values() if name in times]
            first = sum(times.get(name) == min(times.values()) for times in to_best.values() if times)
            rows.append(MeanRow(name, columns, median(mine) if mine else None, first))
    first_column = next(iter(MEAN_COLUMNS))
    return sorted(
        rows, key=lambda row: row.means[first_column].ratio.median if row.means[first_column].ratio else float("inf")
    )


def real_programs(measured: Measured) -> list[MeanRow]:
    """The same over the real programs, which fewer peers were run in."""
    return means(measured, [case for case in measured.cases if group_of(measured.workload(case.workload)) == "real"])


def _times_to_best(measured: Measured, cases: list[Case]) -> dict[str, dict[str, float]]:
    """For each workload the time of each allocator relative to the best, over the workload's figures."""
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(case.workload for case in cases):
        mine = [case for case in cases if case.workload == name]
        cells = cells_of(measured, mine, timing_metrics(measured.workload(name)), BEST)
        ratios = {each: measured.workload_ratios(cells, each) for each in measured.allocators}
        found[name] = {each: median(values) for each, values in ratios.items() if values}
    return found


def means_by_suite(measured: Measured) -> list[MeanRow]:
    """Time relative to glibc, suite by suite (a workload may be in several), over all cases that both have."""
    cases = [case for case in measured.cases if not measured.workload(case.workload).allocators]
    members: dict[str, list[Case]] = {}
    for case in cases:
        for suite in (each for each in measured.workload(case.workload).suites if each not in CHOICES):
            members.setdefault(suite, []).append(case)
    rows = []
    for name in measured.allocators:
        rows.append(MeanRow(name, {suite: mean(measured, each, name, GLIBC) for suite, each in members.items()}))
    return [row for row in rows if any(each.workloads for each in row.means.values())]


@dataclass(frozen=True)
class HeatTable:
    """Who wins where, in one group of workloads."""

    title: str
    allocators: list[str]
    rows: list[HeatRow]


def heat_tables(measured: Measured, rss: bool = False) -> list[HeatTable]:
    """Ratio to the best in each workload's main metric (or peak RSS), a table for each suite or paper."""
    groups: dict[str, list[HeatRow]] = {}
    for workload in measured.workloads:
        row = _heat_row(measured, workload, rss)
        if row:
            groups.setdefault(group_of(workload), []).append(row)
    tables = []
    for title, rows in sorted(groups.items(), key=lambda item: place_of(item[0])):
        names = [n for n in measured.allocators if any(row.ratios.get(n) is not None for row in rows)]
        tables.append(HeatTable(title, names, rows))
    return tables


def group_of(workload: Workload) -> str:
    """Where a workload stands on the page."""
    if workload.paper:
        return workload.paper
    return next((suite for suite in workload.suites if suite not in CHOICES), "other")


def place_of(group: str) -> int:
    """Groups in the titles' order."""
    return list(TITLES).index(group) if group in TITLES else len(TITLES)


def _heat_row(measured: Measured, workload: Workload, rss: bool) -> HeatRow | None:
    metrics = [PEAK_RSS] if rss else list(workload.metrics[:1])
    cells = cells_of(measured, measured.cases_of(workload.name), metrics, BEST)
    ratios: dict[str, float | None] = {}
    for name in measured.allocators:
        found = measured.workload_ratios(cells, name)
        ratios[name] = median(found) if found else None
    known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    if len(known) < 2:
        return None
    # Over several cells nobody need be best in each, so what is best over all of them is the measure.
    least = min(known.values())
    ratios = {name: None if ratio is None else ratio / least for name, ratio in ratios.items()}
    return HeatRow(workload, titled(metrics[0]), ratios, min(known, key=known.__getitem__))


def compared(measured: Measured) -> list[Comparison]:
    """The flagship beside the best peer wherever both were measured."""
    rows = []
    for workload in measured.workloads:
        if workload.allocators:
            continue
        for case in measured.cases_of(workload.name):
            for metric in workload.metrics:
                row = _compare(measured, workload, case, metric)
                if row:
                    rows.append(row)
    return rows


def _compare(measured: Measured, workload: Workload, case: Case, metric: Metric) -> Comparison | None:
    peer = measured.best_peer(metric, case)
    ratio = measured.ratio(metric, case, FLAGSHIP, peer) if peer else None
    if not peer or not ratio:
        return None
    ours, theirs = (measured.quartiles(metric, case, name) for name in (FLAGSHIP, peer))
    return Comparison(workload, case, metric, peer, ours.median, theirs.median, ratio)


def worst(rows: list[Comparison], shown: int = WORST_SHOWN) -> list[Comparison]:
    """The workloads in which the flagship is furthest behind in time, each by its worst cell."""
    by_workload: dict[str, Comparison] = {}
    for row in rows:
        known = by_workload.get(row.workload.name)
        if row.metric.timing and (known is None or row.ratio.median > known.ratio.median):
            by_workload[row.workload.name] = row
    behind = sorted(by_workload.values(), key=lambda row: -row.ratio.median)
    return [row for row in behind if row.ratio.median > 1][:shown]


def targets(rows: list[Comparison]) -> list[Comparison]:
    """Where a target was set; missed ones first, the furthest ahead of them."""
    chosen = [row for row in rows if row.metric.target]
    return sorted(chosen, key=lambda row: (bool(row.met), -row.ratio.median / (row.metric.target or 1)))


def failures(measured: Measured) -> list[Failure]:
    """What went wrong, once for each way it did."""
    grouped = Counter((s.case, s.allocator, s.status, s.detail) for s in measured.failures())
    found = []
    for (case, allocator, status, detail), times in grouped.items():
        found.append(Failure(case, allocator, status, detail, times, len(measured.results.of(case, allocator))))
    return found


def warnings(measured: Measured) -> list[str]:
    """What a reader must know before believing the figures."""
    results, said = measured.results, []
    if not results.runs:
        return ["The results hold no run: nothing was measured."]
    noisy = [sample for sample in results.samples if sample.noisy]
    if noisy:
        share = max(sample.foreign_cpu for sample in noisy)
        said.append(
            f"{len(noisy)} of {len(results.samples)} samples were taken while other processes used the machine "
            f"(up to {share:.0%} of its CPU time)."
        )
    for suite, shrink in sorted({(run.suite, run.shrink) for run in results.runs if run.shrink != 1}):
        said.append(f"Suite {suite}: the work was divided by {shrink}, so it is shorter than declared.")
    machines = {str(sorted(_hardware(run.machine).items())) for run in results.runs}
    if len(machines) > 1:
        said.append(f"The figures come from {len(machines)} different machines; ratios never cross runs.")
    unmeasured = [w.name for w in measured.workloads if not measured.cases_of(w.name)]
    if unmeasured:
        said.append(f"Interrupted, or not possible here; no sample of: {', '.join(unmeasured)}.")
    fewest, most = _repeats(measured)
    if 0 < fewest < 5:
        count = f"{most} repeat{'s' if most > 1 else ''}" if fewest == most else f"{fewest} to {most} repeats"
        said.append(f"{count}: too few for the intervals to mean 95 %.")
    return said


def _hardware(machine: dict) -> dict:
    return {key: machine.get(key) for key in ("cpus", "model", "kernel", "libc")}


def _repeats(measured: Measured) -> tuple[int, int]:
    """The fewest and the most samples of one cell."""
    cells = Counter((sample.case, sample.allocator) for sample in measured.results.samples)
    return min(cells.values(), default=0), max(cells.values(), default=0)
