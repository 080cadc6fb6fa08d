# SPDX-License-Identifier: MIT
#
# measured.py: what the report asks of the results: figures of a cell, ratios between two allocators, who was best. All
# of it is remembered, because plots, tables and the papers' comparisons ask for the same again and again.
"""The results of one or several files, with the catalogue's declarations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.catalogue import workloads
from harness.report.lineup import FLAGSHIP, ordered, peers
from harness.results import OK, Case, Results, Sample, read
from harness.statistics import Quartiles, Ratio, geomean, paired_ratios, quartiles, ratio_interval
from harness.workload import CPU_S, PEAK_RSS, Metric, Workload

Cell = tuple[Metric, Case, str]  # a metric of a case, and the allocator that others are compared with there


def load(paths: Iterable[Path]) -> Results:
    """The files' contents together. Repeats of different files are kept apart, so that no ratio crosses files."""
    runs, samples, counts, first = [], [], [], 0
    for path in paths:
        if path.exists() and path.stat().st_size == 0:
            continue  # a run that was interrupted before its first line
        one = read(path)
        runs += one.runs
        counts += one.counts
        moved = [Sample(**{**vars(s), "repeat": s.repeat + first}) for s in one.samples]
        samples += moved
        first = max((s.repeat for s in moved), default=first - 1) + 1
    return Results(runs, samples, counts)


class Measured:
    """Answers from results. `None` everywhere means: not measured."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.cases = results.cases()
        self.allocators = ordered([*results.allocators, *(s.allocator for s in results.samples)])
        self.workloads = self._workloads()
        self._figures: dict[tuple[str, Case, str], dict[int, float]] = {}
        self._ratios: dict[tuple[str, Case, str, str], list[float]] = {}

    def _workloads(self) -> list[Workload]:
        """Those with a sample or a place in a run's list, as declared now, or by a stand-in if they no longer are."""
        names = [w for run in self.results.runs for w in run.workloads] + [case.workload for case in self.cases]
        return [self.workload(name) for name in dict.fromkeys(names)]

    @staticmethod
    def workload(name: str) -> Workload:
        """The declaration of `name`."""
        unknown = Workload(name, (), (Metric(CPU_S, "CPU time", "s"), PEAK_RSS), (), what="no longer in the catalogue")
        return workloads().get(name, unknown)

    def cases_of(self, workload: str) -> list[Case]:
        """Its rows, by number of threads."""
        return sorted((c for c in self.cases if c.workload == workload), key=lambda c: c.threads or 0)

    def figures(self, metric: Metric, case: Case, allocator: str) -> dict[int, float]:
        """One value for each repeat that went well."""
        key = (metric.key, case, allocator)
        if key not in self._figures:
            self._figures[key] = self.results.figures(metric, case, allocator)
        return self._figures[key]

    def quartiles(self, metric: Metric, case: Case, allocator: str) -> Quartiles | None:
        """Median and quartiles of the metric itself."""
        found = self.figures(metric, case, allocator)
        return quartiles(list(found.values())) if found else None

    def ratios(self, metric: Metric, case: Case, allocator: str, reference: str) -> list[float]:
        """Cost of `allocator` over cost of `reference`, repeat by repeat; above 1 is worse, whichever way it counts."""
        key = (metric.key, case, allocator, reference)
        if key not in self._ratios:
            sides = [self.figures(metric, case, name) for name in (allocator, reference)]
            top, bottom = reversed(sides) if metric.higher_is_better else sides
            self._ratios[key] = paired_ratios(top, bottom)
        return self._ratios[key]

    def ratio(self, metric: Metric, case: Case, allocator: str, reference: str) -> Ratio | None:
        """The median of these, with its interval."""
        found = self.ratios(metric, case, allocator, reference)
        return ratio_interval(found) if found else None

    def best(self, metric: Metric, case: Case, among: Iterable[str]) -> str | None:
        """Who has the best median."""
        found = {name: self.quartiles(metric, case, name) for name in among}
        medians = {name: each.median for name, each in found.items() if each}
        if not medians:
            return None
        return (max if metric.higher_is_better else min)(medians, key=lambda name: medians[name])

    def best_peer(self, metric: Metric, case: Case) -> str | None:
        """The best of those the flagship is measured against."""
        return self.best(metric, case, peers(self.allocators))

    def workload_ratios(self, cells: list[Cell], allocator: str) -> list[float]:
        """How a workload of several cells (metric, case, reference) compares: a geometric mean for each repeat.

        Cells that this allocator never finished are left out. Where no repeat has all the others, the medians of the
        cells stand for the one repeat there would have been.
        """
        pairs = [self._paired_by_repeat(metric, case, allocator, reference) for metric, case, reference in cells]
        pairs = [found for found in pairs if found]
        if not pairs:
            return []
        whole = set.intersection(*(set(found) for found in pairs))
        if not whole:
            return [geomean([quartiles(list(found.values())).median for found in pairs])]
        return [geomean([found[repeat] for found in pairs]) for repeat in sorted(whole)]

    def _paired_by_repeat(self, metric: Metric, case: Case, allocator: str, reference: str) -> dict[int, float]:
        mine, other = (self.figures(metric, case, name) for name in (allocator, reference))
        top, bottom = (other, mine) if metric.higher_is_better else (mine, other)
        both = [repeat for repeat in mine if repeat in other and mine[repeat] > 0 and other[repeat] > 0]
        return {repeat: top[repeat] / bottom[repeat] for repeat in both}

    def failures(self) -> list[Sample]:
        """The samples that did not go well."""
        return [sample for sample in self.results.samples if sample.status != OK]

    def has_flagship(self) -> bool:
        """Whether there is anything to compare."""
        return FLAGSHIP in self.allocators
