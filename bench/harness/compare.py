# SPDX-License-Identifier: MIT
#
# compare.py: two sets of samples beside each other. Of one file, samples of the same repeat are paired. Of two files
# there is nothing to pair, each side is resampled by itself; and since the machine may have changed in between, glibc's
# own ratio, if both have it, shows by how much.
"""Compares two results files, or two allocators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.allocators import GLIBC
from harness.catalogue import workloads
from harness.results import Case, Results, ResultsError, read
from harness.statistics import ENOUGH, Ratio, geomean, paired_ratios, ratio_interval, unpaired_ratio
from harness.workload import CPU_S, PEAK_RSS, Metric


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a file and, if named, one allocator in it."""

    path: Path
    results: Results
    allocator: str | None

    @classmethod
    def parse(cls, word: str) -> Side:
        """FILE or FILE:allocator. ResultsError if there is no such thing."""
        name, _, allocator = word.rpartition(":")
        if Path(word).exists() or not name:
            name, allocator = word, ""
        results = read(Path(name))
        if allocator and allocator not in results.allocators:
            raise ResultsError(f"{name} has no allocator '{allocator}', but {', '.join(results.allocators)}")
        return cls(Path(name).resolve(), results, allocator or None)


@dataclass(frozen=True)
class Difference:
    """B's cost as a multiple of A's, in one row; above 1 is worse whichever way the figure counts."""

    case: Case
    metric: Metric
    a: str
    b: str
    ratio: Ratio

    @property
    def verdict(self) -> str:
        """In words, and only what the samples allow to say."""
        if self.ratio.count < ENOUGH:
            return f"{self.ratio.count} repeats: cannot tell"
        if not self.ratio.differs:
            return "within noise"
        return "B costs more" if self.ratio.median > 1 else "B costs less"


def metrics_of(workload: str) -> Iterable[Metric]:
    """What to compare: the declared metrics and peak RSS; of a workload that is no longer declared, CPU time."""
    declared = workloads().get(workload)
    metrics = declared.metrics if declared else (Metric(CPU_S, "CPU time", "s"),)
    return dict.fromkeys([*metrics, PEAK_RSS])


def pairs_of(a: Side, b: Side) -> list[tuple[str, str]]:
    """Which allocators are beside each other: the named ones, or all that both files have."""
    if a.allocator or b.allocator:
        return [(a.allocator or b.allocator or "", b.allocator or a.allocator or "")]
    return [(name, name) for name in a.results.allocators if name in b.results.allocators]


def differences(a: Side, b: Side) -> list[Difference]:
    """Every row and metric that both have."""
    same_file = a.path == b.path
    found = []
    for name_a, name_b in pairs_of(a, b):
        for case in a.results.cases():
            for metric in metrics_of(case.workload):
                sides = (a.results.figures(metric, case, name_a), b.results.figures(metric, case, name_b))
                bottom, top = reversed(sides) if metric.higher_is_better else sides
                ratios = paired_ratios(top, bottom)
                usable = [[v for v in side.values() if v > 0] for side in (top, bottom)]
                if same_file and ratios:
                    found.append(Difference(case, metric, name_a, name_b, ratio_interval(ratios)))
                elif not same_file and all(usable):
                    found.append(Difference(case, metric, name_a, name_b, unpaired_ratio(*usable)))
    return found


def mean_of(found: Iterable[Difference], timing: bool) -> float | None:
    """The geometric mean of times, or of peak RSS, over the rows, each row counting once."""
    by_case: dict[Case, list[float]] = {}
    for each in found:
        if each.metric.timing if timing else each.metric == PEAK_RSS:
            by_case.setdefault(each.case, []).append(each.ratio.median)
    return geomean([geomean(ratios) for ratios in by_case.values()]) if by_case else None


def drift(a: Side, b: Side) -> float | None:
    """How much slower glibc was in B's file than in A's: the machine's share of all differences between files."""
    if a.path == b.path or any(GLIBC not in side.results.allocators for side in (a, b)):
        return None
    return mean_of(differences(Side(a.path, a.results, GLIBC), Side(b.path, b.results, GLIBC)), timing=True)
