# SPDX-License-Identifier: MIT
"""Statistics on data whose answers are known."""

from __future__ import annotations

import math
import random

import pytest
from harness.statistics import (
    geomean,
    geomean_interval,
    median,
    paired_ratios,
    quantile,
    quartiles,
    ratio_interval,
    unpaired_ratio,
)


def test_quantiles_interpolate_between_neighbours() -> None:
    assert quantile([3, 1, 2, 4], 0) == 1
    assert quantile([3, 1, 2, 4], 1) == 4
    assert quantile([10, 20], 0.25) == pytest.approx(12.5)
    # The values that R's default (type 7) and numpy give for 1..9 and for 1..10.
    assert [quantile(range(1, 10), share) for share in (0.25, 0.5, 0.75)] == [3, 5, 7]
    assert [quantile(range(1, 11), share) for share in (0.25, 0.5, 0.75)] == [3.25, 5.5, 7.75]


def test_quantile_of_one_value_is_that_value() -> None:
    assert [quantile([7.0], share) for share in (0, 0.3, 1)] == [7, 7, 7]


def test_quantile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_median_of_an_even_number_is_the_mean_of_the_middle_two() -> None:
    assert median([4, 1, 3, 2]) == 2.5


def test_quartiles_know_their_count() -> None:
    found = quartiles([5, 1, 4, 2, 3])
    assert (found.low, found.median, found.high, found.count) == (2, 3, 4, 5)


def test_geomean_weighs_half_and_double_alike() -> None:
    assert geomean([0.5, 2.0]) == pytest.approx(1)
    assert geomean([1.0, 10.0, 100.0]) == pytest.approx(10)


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [1.0, -2.0]])
def test_geomean_refuses_what_has_no_logarithm(values: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        geomean(values)


def test_ratios_are_taken_within_a_repeat() -> None:
    # The machine was twice as slow in repeat 1: the ratio does not see it.
    assert paired_ratios({0: 10.0, 1: 20.0}, {0: 5.0, 1: 10.0}) == [2, 2]


def test_repeats_that_one_side_lacks_are_left_out() -> None:
    assert paired_ratios({0: 1.0, 1: 6.0, 3: 9.0}, {1: 3.0, 2: 5.0, 3: 3.0}) == [2, 3]
    assert paired_ratios({0: 1.0}, {1: 1.0}) == []


def test_a_figure_of_zero_gives_no_ratio() -> None:
    assert paired_ratios({0: 0.0, 1: 2.0, 2: 4.0}, {0: 1.0, 1: 0.0, 2: 2.0}) == [2]


def test_interval_is_the_same_each_time() -> None:
    ratios = [1.02, 0.97, 1.05, 1.01, 0.99, 1.03]
    assert ratio_interval(ratios) == ratio_interval(list(reversed(ratios)))


def test_interval_lies_within_the_ratios_and_around_the_median() -> None:
    ratios = [1.3, 1.1, 1.2, 1.15, 1.25, 1.18, 1.22]
    found = ratio_interval(ratios)
    assert min(ratios) <= found.low <= found.median <= found.high <= max(ratios)
    assert found.median == 1.2
    assert found.count == 7


def test_interval_of_equal_ratios_has_no_width() -> None:
    found = ratio_interval([1.2] * 5)
    assert (found.low, found.high) == (1.2, 1.2)


def drawn(generator: random.Random, centre: float, spread: float, count: int) -> list[float]:
    """Log-normal values whose true median is `centre`."""
    return [centre * math.exp(generator.gauss(0, spread)) for _ in range(count)]


def test_interval_covers_the_true_ratio_as_often_as_promised() -> None:
    generator = random.Random(20)
    experiments = 400
    found = [ratio_interval(drawn(generator, 1.2, 0.05, 15)) for _ in range(experiments)]
    covered = sum(each.low <= 1.2 <= each.high for each in found) / experiments
    # Promised 95 %; the percentile bootstrap of so few gives a little less, and 400 experiments vary by 1 % (sigma).
    assert 0.90 <= covered <= 0.99
    assert all(each.differs for each in found)


def test_interval_covers_one_when_there_is_no_difference() -> None:
    generator = random.Random(21)
    found = [ratio_interval(drawn(generator, 1.0, 0.05, 15)) for _ in range(400)]
    assert sum(each.differs for each in found) / 400 <= 0.10


def test_few_ratios_prove_nothing() -> None:
    assert not ratio_interval([1.5, 1.6, 1.55, 1.52]).differs
    assert ratio_interval([1.5, 1.6, 1.55, 1.52, 1.58]).differs


def test_unpaired_interval_covers_the_true_ratio() -> None:
    generator = random.Random(22)
    found = [unpaired_ratio(drawn(generator, 12, 0.03, 9), drawn(generator, 10, 0.03, 9)) for _ in range(200)]
    assert all(each.differs for each in found)
    assert 0.88 <= sum(each.low <= 1.2 <= each.high for each in found) / 200 <= 0.995
    alike = [unpaired_ratio(drawn(generator, 10, 0.03, 9), drawn(generator, 10, 0.03, 9)) for _ in range(200)]
    assert sum(each.differs for each in alike) / 200 <= 0.12


def test_unpaired_ratio_refuses_what_it_cannot_divide() -> None:
    with pytest.raises(ValueError, match="positive"):
        unpaired_ratio([1.0], [])
    with pytest.raises(ValueError, match="positive"):
        unpaired_ratio([1.0], [0.0])


def test_geomean_interval_is_the_mean_of_medians() -> None:
    found = geomean_interval([[2.0, 2.0, 9.0], [0.5, 0.5, 0.5]])
    assert found.median == pytest.approx(1)
    assert found.count == 3
    assert found.low <= 1 <= found.high
