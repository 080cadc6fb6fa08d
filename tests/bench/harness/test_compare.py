# SPDX-License-Identifier: MIT
"""Comparing: a planted difference is found, and none where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import made_up_results
from harness.compare import Side, differences, drift, mean_of
from harness.results import ResultsError


def verdicts(a: str | Path, b: str | Path) -> dict[str, str]:
    found = differences(Side.parse(str(a)), Side.parse(str(b)))
    return {f"{each.metric.key} {each.a} {each.b}": each.verdict for each in found}


def test_a_difference_of_20_percent_between_allocators_is_found(tmp_path: Path) -> None:
    file = made_up_results(tmp_path / "r.jsonl", {"one": 10, "two": 12})
    assert verdicts(f"{file}:one", f"{file}:two")["cpu_ns one two"] == "B costs more"
    assert verdicts(f"{file}:two", f"{file}:one")["cpu_ns two one"] == "B costs less"


def test_the_ratio_of_a_planted_difference_is_right(tmp_path: Path) -> None:
    file = made_up_results(tmp_path / "r.jsonl", {"one": 10, "two": 12}, repeats=15)
    found = differences(Side.parse(f"{file}:one"), Side.parse(f"{file}:two"))
    ratio = next(each.ratio for each in found if each.metric.key == "cpu_ns")
    assert ratio.median == pytest.approx(1.2, rel=0.02)
    assert ratio.low <= 1.2 <= ratio.high
    assert mean_of(found, timing=True) == pytest.approx(ratio.median)


def test_equal_allocators_are_within_noise(tmp_path: Path) -> None:
    file = made_up_results(tmp_path / "r.jsonl", {"one": 10, "two": 10})
    assert set(verdicts(f"{file}:one", f"{file}:two").values()) == {"within noise"}


def test_identical_files_do_not_differ(tmp_path: Path) -> None:
    a = made_up_results(tmp_path / "a.jsonl", {"one": 10, "two": 12}, seed=4)
    b = made_up_results(tmp_path / "b.jsonl", {"one": 10, "two": 12}, seed=4)
    found = verdicts(a, b)
    assert set(found.values()) == {"within noise"}
    assert "cpu_ns one one" in found
    assert "cpu_ns two two" in found


def test_a_difference_between_files_is_found(tmp_path: Path) -> None:
    a = made_up_results(tmp_path / "a.jsonl", {"one": 10, "two": 10}, seed=5, repeats=15)
    b = made_up_results(tmp_path / "b.jsonl", {"one": 10, "two": 15}, seed=6, repeats=15)
    found = verdicts(a, b)
    assert found["cpu_ns one one"] == "within noise"
    assert found["cpu_ns two two"] == "B costs more"


def test_few_repeats_tell_nothing(tmp_path: Path) -> None:
    file = made_up_results(tmp_path / "r.jsonl", {"one": 10, "two": 30}, repeats=3)
    assert "cannot tell" in verdicts(f"{file}:one", f"{file}:two")["cpu_ns one two"]


def test_glibcs_own_ratio_shows_that_the_machine_changed(tmp_path: Path) -> None:
    a = made_up_results(tmp_path / "a.jsonl", {"glibc": 10, "two": 10}, repeats=15, seed=1)
    b = made_up_results(tmp_path / "b.jsonl", {"glibc": 10, "two": 10}, repeats=15, seed=2, drift=2)
    assert drift(Side.parse(str(a)), Side.parse(str(b))) == pytest.approx(2, rel=0.2)
    assert drift(Side.parse(str(a)), Side.parse(str(a))) is None


def test_an_unknown_allocator_or_file_is_refused(tmp_path: Path) -> None:
    file = made_up_results(tmp_path / "r.jsonl", {"one": 10})
    with pytest.raises(ResultsError, match="no allocator 'three'"):
        Side.parse(f"{file}:three")
    with pytest.raises(ResultsError, match="cannot read"):
        Side.parse(str(tmp_path / "nowhere.jsonl"))
