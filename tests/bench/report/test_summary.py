# SPDX-License-Identifier: MIT
"""The figures of the summary, against ones computed by hand."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from harness.report.goals import goals
from harness.report.measured import Measured, load
from harness.report.summary import (
    compared,
    failures,
    heat_tables,
    means,
    means_by_suite,
    shared_cases,
    targets,
    warnings,
    worst,
)
from harness.results import CRASHED, HUNG, Count
from synthetic import RUN_ID, run_line, sample, write

Make = Callable[[Iterable], Measured]
THREE = ("freeway", "glibc", "mimalloc3")


def two_workloads() -> list:
    """lifo (target 1.0) and random-1 (target 0.8), one repeat: 10 20 40 ns and 60 30 15 ns."""
    lines = [run_line(["lifo", "random-1"], THREE)]
    for workload, figures in (("lifo", (10, 20, 40)), ("random-1", (60, 30, 15))):
        lines += [sample(workload, name, 0, ns, kib=int(ns * 100)) for name, ns in zip(THREE, figures, strict=True)]
    return lines


def test_geometric_means_are_those_computed_by_hand(measured: Make) -> None:
    rows = {row.allocator: row.means for row in means(measured(two_workloads()))}
    # Relative to the best: freeway 1 and 4, glibc 2 and 2, mimalloc3 4 and 1.
    for name, ratios in (("freeway", (1, 4)), ("glibc", (2, 2)), ("mimalloc3", (4, 1))):
        assert rows[name]["time / best"].ratio.median == pytest.approx(math.sqrt(math.prod(ratios)))
        assert rows[name]["peak RSS / best"].ratio.median == pytest.approx(math.sqrt(math.prod(ratios)))
        assert rows[name]["time / best"].workloads == 2
    assert rows["freeway"]["time / glibc"].ratio.median == pytest.approx(math.sqrt(0.5 * 2))
    assert rows["mimalloc3"]["time / glibc"].ratio.median == pytest.approx(math.sqrt(2 * 0.5))
    assert rows["glibc"]["time / glibc"].ratio.median == pytest.approx(1)


def test_beside_the_mean_stand_the_middle_and_the_first_places(measured: Make) -> None:
    rows = {row.allocator: (row.middle, row.first) for row in means(measured(two_workloads()))}
    assert rows == {"freeway": (2.5, 1), "glibc": (2, 0), "mimalloc3": (2.5, 1)}


def test_a_workload_counts_once_however_many_threads_it_has(measured: Make) -> None:
    lines = [run_line(["lifo", "larson-michael"], THREE)]
    lines += [sample("lifo", name, 0, ns) for name, ns in zip(THREE, (8, 1, 1), strict=True)]
    for threads in (1, 2, 4):
        lines += [
            sample("larson-michael", name, 0, ns, threads=threads) for name, ns in zip(THREE, (2, 1, 1), strict=True)
        ]
    rows = {row.allocator: row.means for row in means(measured(lines))}
    assert rows["freeway"]["time / glibc"].ratio.median == pytest.approx(math.sqrt(8 * 2))
    assert rows["freeway"]["time / glibc"].workloads == 2


def test_ratios_are_taken_within_repeats(measured: Make) -> None:
    lines = [run_line(["lifo"], THREE)]
    for repeat, slowness in enumerate((1, 10, 3)):  # the machine was disturbed: the ratio does not move
        lines += [sample("lifo", name, repeat, ns * slowness) for name, ns in zip(THREE, (10, 20, 40), strict=True)]
    row = next(row for row in means(measured(lines)) if row.allocator == "freeway")
    found = row.means["time / glibc"].ratio
    assert (found.median, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_means_compare_only_what_the_whole_field_ran(measured: Make) -> None:
    lines = [*two_workloads(), *(sample("batch", name, 0, 5) for name in ("freeway", "glibc"))]
    made = measured(lines)
    assert [case.workload for case in shared_cases(made)] == ["lifo", "random-1"]
    suites = {row.allocator: row.means["today"].workloads for row in means_by_suite(made)}
    assert suites == {"freeway": 3, "glibc": 3, "mimalloc3": 2}


def test_higher_is_better_turns_the_ratio_round(measured: Make) -> None:
    name = "buddy-28-malloc-nbbs"
    lines = [run_line([name], ("freeway", "glibc"))]
    lines += [
        sample(name, allocator, 0, ns, threads=2, first_over_last=share)
        for allocator, ns, share in (("freeway", 1, 0.9), ("glibc", 1, 0.3))
    ]
    made = measured(lines)
    metric = next(m for m in made.workload(name).metrics if m.higher_is_better)
    assert made.best(metric, made.cases[0], ("freeway", "glibc")) == "freeway"
    assert made.ratio(metric, made.cases[0], "glibc", "freeway").median == pytest.approx(3)


def test_targets_and_the_worst_workloads(measured: Make) -> None:
    rows = compared(measured(two_workloads()))
    by_name = {(row.workload.name, row.metric.label): row for row in rows}
    pair = by_name["lifo", "malloc(32) + free"]
    assert (pair.peer, pair.met, pair.ratio.median) == ("glibc", True, pytest.approx(0.5))
    random = next(row for row in rows if row.workload.name == "random-1" and row.metric.target)
    assert (random.peer, random.met, random.ratio.median) == ("mimalloc3", False, pytest.approx(4))
    assert [row.workload.name for row in worst(rows)] == ["random-1"]
    assert [row.met for row in targets(rows)] == [False, True]  # missed first


def test_the_winner_is_1_and_the_others_are_relative_to_it(measured: Make) -> None:
    (table,) = heat_tables(measured(two_workloads()))
    by_workload = {row.workload.name: row for row in table.rows}
    assert by_workload["lifo"].best == "freeway"
    assert by_workload["lifo"].ratios == pytest.approx({"freeway": 1, "glibc": 2, "mimalloc3": 4})
    assert by_workload["random-1"].best == "mimalloc3"


def test_a_failed_allocator_has_a_mean_over_fewer_workloads_and_is_named(measured: Make) -> None:
    lines = [*two_workloads(), sample("batch", "freeway", 0, 5), sample("batch", "glibc", 0, 5)]
    lines += [sample("batch", "mimalloc3", repeat, 0, status=CRASHED, detail="signal 11") for repeat in (0, 1)]
    lines.append(sample("batch", "mimalloc3", 2, 0, status=HUNG))
    made = measured(lines)
    row = next(row for row in means(made) if row.allocator == "mimalloc3")
    assert row.means["time / best"].workloads == 2
    assert next(row for row in means(made) if row.allocator == "freeway").means["time / best"].workloads == 3
    found = [(f.allocator, f.status, f.times, f.of) for f in failures(made)]
    assert found == [("mimalloc3", CRASHED, 2, 3), ("mimalloc3", HUNG, 1, 3)]


def test_noise_trial_runs_and_gaps_are_warned_of(measured: Make) -> None:
    lines = [
        run_line(["lifo", "batch"], THREE, shrink=50),
        sample("lifo", "freeway", 0, 5, noisy=True, foreign_cpu=0.31),
    ]
    said = " ".join(warnings(measured(lines)))
    for words in ("1 of 1 samples", "31%", "divided by 50", "no sample of: batch", "1 repeat:"):
        assert words in said


def test_files_are_read_together_and_their_repeats_kept_apart(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", [run_line(["lifo"], THREE), sample("lifo", "freeway", 0, 10)])
    other = write(tmp_path / "other.jsonl", [run_line(["lifo"], THREE), sample("lifo", "glibc", 0, 99)])
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(two_workloads_text(tmp_path)))
    made = Measured(load([one, other, packed]))
    metric, case = made.workload("lifo").metrics[0], made.cases[0]
    assert sorted(made.figures(metric, case, "freeway").values()) == pytest.approx([10, 10])
    # Only the third file has both: no ratio of a repeat of one file to that of another.
    assert made.ratios(metric, case, "freeway", "glibc") == pytest.approx([0.5])


def two_workloads_text(folder: Path) -> bytes:
    """The lines of a results file."""
    return write(folder / "two.jsonl", two_workloads()).read_bytes()


def test_goals_are_reached_missed_or_not_measured(measured: Make) -> None:
    lines = [*two_workloads(), sample("fork", "freeway", 0, 5, pages_copied=101)]
    lines += [
        sample("startup", name, 0, 1, hello_anonymous_kib=kib) for name, kib in (("freeway", 228), ("glibc", 100))
    ]
    lines += [sample("few-threads", "freeway", 0, 9), sample("many-threads", "freeway", 0, 10)]
    lines.append(Count(RUN_ID, "malloc(32) + free", "freeway", 200.0, None, "callgrind"))
    lines.append(Count(RUN_ID, "malloc(32) + free", "freeway", 35.0, None, "disassembly of the fast path"))
    column = {"freeway": 1.5, "glibc": 2.0, "mimalloc3": 1.5, "michael": 0.1}
    rows = {goal.label: goal for goal in goals(measured(lines), lambda _: column)}
    reached = {label.split(" ")[0] + " " + label.split(" ")[-1]: goal.met for label, goal in rows.items()}
    assert reached == {
        "geometric time": False,  # as fast as the best peer is not below it
        "geometric RSS": True,
        "instructions free": True,
        "locked thread": None,
        "pages %": False,
        "throughput 2": False,
        "anonymous world”": True,
        "RSS bound": None,
    }
