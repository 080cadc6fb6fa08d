# SPDX-License-Identifier: MIT
"""The papers' declarations: what they look up must exist, or a table would stay empty and nobody would notice."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

import pytest
from harness.allocators import DEBIAN, FORMS, ROOT, Allocator
from harness.catalogue import workloads
from harness.plan import SUITES, names_for
from harness.report.lineup import is_engine, is_ours, ordered, peers
from harness.report.measured import Measured
from harness.report.papers import PAPERS
from harness.report.papers.table import At, Figure, Paper, PaperTable, Span, percent_more, scaled_up, speed_up
from harness.report.readme import ROWS
from harness.report.words import NOT_MEASURED
from harness.workload import CPU_NS, MINOR_FAULTS, PEAK_RSS, PEAK_RSS_KIB, WALL_NS
from synthetic import run_line, sample

Make = Callable[[Iterable], Measured]
# What measure.h and the kernel give for every program, beside the metrics that its declaration names.
ALWAYS = {CPU_NS, WALL_NS, PEAK_RSS_KIB, MINOR_FAULTS, "vm_peak_kib", "seconds"}
TABLES = [pytest.param(table, id=f"{paper.key} {table.item}") for paper in PAPERS for table in paper.tables]


@pytest.mark.parametrize("table", TABLES)
def test_every_look_up_leads_to_a_declared_workload(table: PaperTable) -> None:
    known = workloads()
    for place in table.places():
        assert place.workload in known, f"{table.item} looks for {place.workload}, which no catalogue declares"
        workload = known[place.workload]
        counts = {*workload.threads, *workload.scaling}
        assert place.threads in (counts or {None}), f"{place.workload} is never run with {place.threads} threads"
        keys = ALWAYS | {metric.key for metric in workload.metrics}
        assert place.key in keys, f"{place.workload} prints no {place.key}"


@pytest.mark.parametrize("table", TABLES)
def test_every_table_says_its_denominator_and_why_it_differs(table: PaperTable) -> None:
    assert table.rows
    assert len(table.denominator) > 10
    assert len(table.why) > 20


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_a_suite_runs_the_workload_under_the_allocator(paper: Paper) -> None:
    places = {place for table in paper.tables for place in table.places()}
    known = {place.allocator: Allocator(place.allocator, None) for place in places}
    for place in places:
        workload = workloads()[place.workload]
        suites = [suite for suite in SUITES.values() if suite.name in workload.suites]
        under = {name for suite in suites for name in names_for(workload, suite, known)}
        assert place.allocator in under, f"no suite runs {place.workload} under {place.allocator}"


def test_builds_of_the_tables_exist() -> None:
    builds = os.environ.get("FREEWAY_ENGINE_BUILDS", "").split()
    if not builds:
        pytest.skip("which builds there are is known to CMake")
    option = {f"{engine}-{form}" for engine, forms in FORMS.items() for form in forms}
    used = {place.allocator for paper in PAPERS for table in paper.tables for place in table.places()}
    assert {name for name in used if is_engine(name)} - option <= set(builds)
    assert {name for name in used if not is_engine(name)} <= {"glibc", "locked", "freeway", *(n for n, _, _ in DEBIAN)}


def test_forms_are_options_of_their_engines() -> None:
    table = (ROOT / "papers/front/options.h").read_text()
    for engine, forms in FORMS.items():
        for option, value in {pair for options in forms.values() for pair in options.items()}:
            found = re.search(rf'{{"{engine}", "{option}", "([^"]*)"', table)
            assert found, f"{engine} has no option {option}"
            assert value in found[1].split("|") or (".." in found[1] and value.isdigit()), f"{option}={value}"


def test_every_row_of_the_readme_leads_to_a_declared_metric() -> None:
    for row in ROWS:
        assert row.key in {metric.key for metric in (*workloads()[row.workload].metrics, PEAK_RSS)}, row


def test_a_ratio_of_one_case_is_taken_within_repeats(measured: Make) -> None:
    lines = [run_line(["lifo"])]
    lines += [sample("lifo", "locked", 0, 30), sample("lifo", "michael", 0, 10)]
    lines += [sample("lifo", "locked", 1, 300), sample("lifo", "michael", 1, 100), sample("lifo", "michael", 2, 1)]
    made = measured(lines)
    assert speed_up("lifo", "michael", "locked").text(made) == "3.00 ×"
    assert speed_up("lifo", "hmalloc", "locked").text(made) == NOT_MEASURED


def test_a_ratio_across_numbers_of_threads_is_of_medians(measured: Make) -> None:
    lines = [run_line(["larson-michael"])]
    lines += [sample("larson-michael", "locked", repeat, 40 + repeat, threads=1) for repeat in (0, 1, 2)]
    lines += [sample("larson-michael", "michael", repeat, 20.5, threads=16) for repeat in (0, 1)]
    assert scaled_up("larson-michael", "michael", 16, "locked").text(measured(lines)) == "2.00 ×"


def test_a_span_shows_what_was_measured_of_it(measured: Make) -> None:
    lines = [run_line(["larson-michael"])]
    for threads, ns in ((1, 15), (2, 20)):
        lines += [sample("larson-michael", "glibc", 0, ns, threads=threads)]
        lines += [sample("larson-michael", "michael", 0, 10, threads=threads)]
    made = measured(lines)

    def figure(threads: int) -> Figure:
        return Figure(At("larson-michael", "glibc", threads), At("larson-michael", "michael", threads), percent_more)

    assert Span((figure(1), figure(2), figure(16))).text(made) == "+50 % … +100 % (mean +75 %)"
    assert Span((figure(1),)).text(made) == "+50 %"
    assert Span((figure(16),)).text(made) == NOT_MEASURED


def test_who_is_ours() -> None:
    names = ("glibc", "nbbs", "freeway-no-rseq", "locked", "mimalloc3", "michael-one-heap", "freeway", "other")
    assert [name for name in names if is_ours(name)] == [
        "nbbs", "freeway-no-rseq", "locked", "michael-one-heap", "freeway",
    ]  # fmt: skip
    assert peers(names) == ["glibc", "mimalloc3", "other"]
    assert ordered(names)[:3] == ["freeway", "freeway-no-rseq", "glibc"]
