# SPDX-License-Identifier: MIT
#
# statistics.py: how samples become figures. Pure functions on numbers; nothing here knows what was measured.
#
# A sample is compared with another of the same repeat only: within a repeat all allocators run a workload one after
# the other, so what slows the machine for minutes slows all of them, and the ratio keeps still where the figures do
# not. The ratio reported is the median of those ratios, with a 95 % interval by the percentile bootstrap. Of few ratios
# that interval is too narrow (the smallest and the largest of n enclose the true median in 1 - 2^(1-n) of all cases:
# 75 % of three, 94 % of five): below five it is printed, but nothing is concluded from it.
"""Quartiles, geometric means, paired ratios and bootstrap intervals."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95
RESAMPLES = 2000
ENOUGH = 5  # ratios from which on a difference may be called one


@dataclass(frozen=True)
class Quartiles:
    """The middle half of some values."""

    low: float
    median: float
    high: float
    count: int


@dataclass(frozen=True)
class Ratio:
    """A median ratio with its interval; `count` is the number of (pairs of) samples behind it."""

    median: float
    low: float
    high: float
    count: int

    @property
    def differs(self) -> bool:
        """True if the interval excludes 1 and there are samples enough to believe it."""
        return self.count >= ENOUGH and (self.low > 1 or self.high < 1)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `values` lie, interpolated between neighbours; ValueError if none."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def median(values: Sequence[float]) -> float:
    """The middle value; of an even number, the mean of the middle two."""
    return quantile(values, 0.5)


def quartiles(values: Sequence[float]) -> Quartiles:
    """Median and quartiles."""
    return Quartiles(quantile(values, 0.25), median(values), quantile(values, 0.75), len(values))


def geomean(values: Sequence[float]) -> float:
    """The geometric mean of positive values; ValueError if there is none, or one that is not positive."""
    if not values or min(values) <= 0:
        raise ValueError("a geometric mean wants positive values")
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def paired_ratios(ours: Mapping[Hashable, float], theirs: Mapping[Hashable, float]) -> list[float]:
    """ours / theirs of each repeat that both have; repeats with a figure that is not positive are left out."""
    both = [repeat for repeat in ours if repeat in theirs]
    return [ours[repeat] / theirs[repeat] for repeat in both if ours[repeat] > 0 and theirs[repeat] > 0]


@cache
def _median_ranks(count: int, seed: int) -> tuple[tuple[int, int], ...]:
    """For each resample of `count` values: the ranks of the two values that its median lies between.

    They depend on the number of values alone, so that one drawing serves all data of that size.
    """
    generator = random.Random(seed * 1_000_003 + count)
    drawn = []
    for _ in range(RESAMPLES):
        ranks = sorted(generator.choices(range(count), k=count))
        drawn.append((ranks[(count - 1) // 2], ranks[count // 2]))
    return tuple(drawn)


def _resampled_medians(values: Sequence[float], seed: int) -> list[float]:
    ordered = sorted(values)
    return [(ordered[low] + ordered[high]) / 2 for low, high in _median_ranks(len(ordered), seed)]


def _interval(resampled: Sequence[float], confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    return quantile(resampled, tail), quantile(resampled, 1 - tail)


def ratio_interval(ratios: Sequence[float], confidence: float = CONFIDENCE, seed: int = 1) -> Ratio:
    """The median of paired ratios and its bootstrap interval; the same for the same ratios. ValueError if none."""
    low, high = _interval(_resampled_medians(ratios, seed), confidence)
    return Ratio(median(ratios), low, high, len(ratios))


def unpaired_ratio(
    ours: Sequence[float], theirs: Sequence[float], confidence: float = CONFIDENCE, seed: int = 1
) -> Ratio:
    """The ratio of two medians that were measured apart: each side is resampled by itself."""
    if not ours or not theirs or min(*ours, *theirs) <= 0:
        raise ValueError("a ratio wants positive values on both sides")
    tops, bottoms = _resampled_medians(ours, 2 * seed), _resampled_medians(theirs, 2 * seed + 1)
    low, high = _interval([top / bottom for top, bottom in zip(tops, bottoms, strict=True)], confidence)
    return Ratio(median(ours) / median(theirs), low, high, min(len(ours), len(theirs)))


def geomean_interval(ratios: Sequence[Sequence[float]], confidence: float = CONFIDENCE, seed: int = 1) -> Ratio:
    """The geometric mean over workloads of their median ratios. The interval shows the noise of the samples, not the
    choice of the workloads; `count` is the smallest number of ratios of one workload."""
    medians = [_resampled_medians(each, seed + place) for place, each in enumerate(ratios)]
    low, high = _interval([geomean(drawn) for drawn in zip(*medians, strict=True)], confidence)
    return Ratio(geomean([median(each) for each in ratios]), low, high, min(map(len, ratios)))
