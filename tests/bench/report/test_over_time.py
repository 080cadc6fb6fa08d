# SPDX-License-Identifier: MIT
"""Figures over time: what becomes a line, what a picture shows of lines; the kept picture is that of the kept lines."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from harness import pulse
from harness.report import over_time
from harness.results import CRASHED, OK, Results, ResultsError, Run
from synthetic import MACHINE, RUN_ID, sample

LINE: dict[str, Any] = {
    "commit": "0123abcd", "at": RUN_ID, "machine": {"model": "A made-up CPU", "cpus": 2}, "foreign_cpu": 0.01,
    "instructions": {"malloc": 16, "free": 29, "owned_malloc": 34, "owned_free": 60},
    "ratios": {"lifo.cpu_ns": [0.5, 0.4, 0.6]}, "hello_kib": {"glibc": 1000, "freeway": 1200},
}  # fmt: skip


def results(ratio: float, status: str = OK) -> Results:
    """Freeway takes `ratio` times what glibc takes, in a machine that is twice as slow in every other repeat."""
    head = Run(RUN_ID, "pulse", 5, 1, dict(MACHINE), (), pulse.WORKLOADS)
    samples = []
    for case, _ in pulse.metrics():
        for repeat in range(5):
            slow = 10.0 * (1 + repeat % 2)
            for name, ns in (("glibc", slow), ("freeway", slow * ratio)):
                samples.append(sample(case.workload, name, repeat, ns, alloc_ns=ns, free_ns=ns, status=status))
    return Results([head], samples, [])


def test_ratios_are_of_pairs_and_have_every_figure() -> None:
    found = pulse.ratios(results(0.75))
    assert list(found) == [f"{case}.{metric.key}" for case, metric in pulse.metrics()]
    assert {tuple(each) for each in found.values()} == {(0.75, 0.75, 0.75)}


def test_a_sample_that_failed_is_no_line() -> None:
    with pytest.raises(ResultsError, match=r"lifo under glibc: crashed"):
        pulse.ratios(results(0.75, CRASHED))


def test_what_was_not_measured_is_no_line() -> None:
    made = results(0.75)
    without = [each for each in made.samples if each.workload != "batch"]
    with pytest.raises(ResultsError, match="batch: nothing was measured"):
        pulse.ratios(Results(made.runs, without, []))


def test_what_is_not_built_is_said(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"there is no .*libfreeway.so: `make pulse` builds it"):
        pulse.take(tmp_path, tmp_path / "samples.jsonl")


def test_lines_are_added_and_read_in_the_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "lines/pulse.jsonl"
    later, earlier = LINE, LINE | {"at": "2029-01-01T00:00:00+00:00"}
    for line in (later, earlier, later):
        assert json.loads(pulse.append(line, path)) == line
    assert pulse.kept(path) == [earlier, later, later]


@pytest.mark.parametrize("text", ["{", "[]", '{"commit": "0123abcd"}'])
def test_a_line_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "pulse.jsonl").write_text(f"{json.dumps(LINE)}\n{text}\n")
    with pytest.raises(ResultsError, match="line 2"):
        pulse.kept(tmp_path / "pulse.jsonl")


def test_no_lines_are_no_picture(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="make pulse"):
        over_time.draw(pulse.kept(tmp_path / "none.jsonl"))


@pytest.mark.parametrize("count", [1, 2, 300])
def test_a_picture_has_each_figure_first_and_last_commit_and_machines(count: int) -> None:
    lines = [LINE | {"commit": f"{at:08x}", "machine": {"model": f"CPU {at % 2}", "cpus": 2}} for at in range(count)]
    plot = over_time.draw(lines)
    root = ElementTree.fromstring(plot.file())
    said = "".join(root.itertext())
    for panel in over_time.panels(lines):
        assert panel.title in said
    for word in (lines[0]["commit"], lines[-1]["commit"], *{over_time.machine_of(line) for line in lines}):
        assert word in said
    assert "instructions of a pair: 45" in plot.alt
    assert "lifo, time / glibc: 0.5" in plot.alt
    assert "hello, KiB above glibc: 200" in plot.alt
    assert len(plot.file()) < 200_000


def test_a_point_moves_with_its_figure_and_is_hollow_when_disturbed() -> None:
    slower = LINE | {"ratios": {"lifo.cpu_ns": [0.9, 0.8, 1.1]}}
    disturbed = LINE | {"foreign_cpu": 0.5}
    pictures = {over_time.draw([LINE, second]).file() for second in (LINE, slower, disturbed)}
    assert len(pictures) == 3


def test_figures_that_a_line_does_not_have_are_left_out() -> None:
    other = over_time.draw([LINE | {"instructions": {}, "ratios": {}}])
    assert "instructions" not in other.alt
    assert "lifo" not in other.alt


def test_the_kept_picture_is_that_of_the_kept_lines() -> None:
    lines = pulse.kept()
    if not lines:
        pytest.skip("no line is kept yet")
    assert pulse.PICTURE.read_text() == over_time.draw(lines).file(), "out of date: bench/lab pulse --draw"
