# SPDX-License-Identifier: MIT
"""Figures in, page out, on made-up runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.proof import page, steps
from tools.proof.record import Figure, Run, Step, read_figures, read_junit


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


def figure(area: str, subject: str, what: str, value: int, test: str = "t", most: bool = False) -> Figure:
    return Figure(area, subject, what, test, value, most)


def made_up(*figures: Figure) -> Run:
    return Run("2026-01-01 00:00 UTC", "a machine", [Step("tests", 90.0, 7, ["s"], ["bad"])], list(figures))


def table(*figures: Figure) -> page.Table:
    (only,) = page.tables(made_up(*figures))
    return only


def test_counts_are_added_and_the_most_is_kept(tmp_path: Path) -> None:
    path = write(
        tmp_path / "f",
        '{"test": "a", "area": "forks", "subject": "fork", "what": "forks", "count": 3}',
        '{"test": "a", "area": "forks", "subject": "fork", "what": "forks", "count": 4}',
        '{"test": "a", "area": "forks", "subject": "fork", "what": "depth", "most": 9}',
        '{"test": "a", "area": "forks", "subject": "fork", "what": "depth", "most": 2}',
    )
    assert [f.value for f in read_figures(path)] == [7, 9]


def test_a_line_that_is_no_figure_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "f", '{"test": "a", "area": "forks"}')
    with pytest.raises(ValueError, match=":1: not a figure"):
        read_figures(path)


def test_no_figures_are_none(tmp_path: Path) -> None:
    assert read_figures(tmp_path / "absent") == []


def test_engine_and_mode_come_from_the_test_name() -> None:
    found = [
        (f.engine, f.mode)
        for f in (
            figure("a", "s", "w", 1, "lfmalloc.signal_storm_test.no-rseq"),
            figure("a", "s", "w", 1, "streamflow-headers.differential"),
            figure("a", "s", "w", 1, "engine_nbbs_killed"),
            figure("a", "s", "w", 1, "signal_storm_test.rseq"),
            figure("a", "s", "w", 1, "superblock_model"),
            figure("a", "s", "w", 1, "differential_one_thread_hardened"),
        )
    ]
    expected = [("lfmalloc", "no-rseq"), ("streamflow", ""), ("nbbs", ""), ("", "rseq"), ("", ""), ("", "hardened")]
    assert found == expected


def test_junit_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.xml",
        '<testsuite><testcase name="a" status="run"/><testcase name="b" status="fail"/>',
        '<testcase name="c" status="notrun"/></testsuite>',
    )
    step = Step("s", 1.0)
    read_junit(path, step)
    assert (step.passed, step.failed, step.skipped) == (1, ["b"], ["c"])


def test_a_run_survives_being_saved(tmp_path: Path) -> None:
    for run in (made_up(figure("forks", 'a "quoted" one', "forks", 3)), made_up()):
        run.save(tmp_path / "run.json")
        assert Run.load(tmp_path / "run.json") == run


def test_modes_are_rows_and_engines_one_row_each() -> None:
    made = table(
        figure("instructions", "malloc", "boundaries", 5, "tour.rseq"),
        figure("instructions", "malloc", "boundaries", 6, "tour.no-rseq"),
        figure("instructions", "malloc", "boundaries", 10, "michael.tour"),
        figure("instructions", "free", "boundaries", 20, "michael.tour"),
    )
    assert [(r.subject, r.mode, r.cells) for r in made.rows] == [
        ("malloc", "rseq", [5]),
        ("malloc", "no-rseq", [6]),
        ("all of it, engine michael", "", [30]),
    ]
    assert made.total == [41]
    assert made.rows[2].tests == ["tour"]


def test_suites_are_spoken_and_the_most_is_not_added() -> None:
    made = table(
        figure("models", "TaggedStackModel", "executions", 5),
        figure("models", "TaggedStackModel", "operations at most", 7, "t1", most=True),
        figure("models", "TaggedStackModel", "operations at most", 3, "t2", most=True),
    )
    assert [(r.subject, r.cells) for r in made.rows] == [("tagged stack", [5, 7])]
    assert table(figure("models", "TreeModel", "executions", 5, "engine_nbbs_tree")).rows[0].subject == "nbbs, tree"


def test_failures_are_said_on_the_page() -> None:
    text = page.render(made_up(figure("forks", "fork", "forks", 12345)))
    assert "**Failed:** bad." in text
    assert "12\u202f345" in text
    assert "## Forks" in text


def test_an_unknown_area_is_shown_too() -> None:
    assert "## Moons" in page.render(made_up(figure("moons", "io", "orbits", 1)))


def test_steps_run_apart_make_one_page(tmp_path: Path) -> None:
    made_up(figure("forks", "fork", "forks", 1)).save(tmp_path / "quick.json")
    made_up(figure("forks", "fork", "forks", 2)).save(tmp_path / "long.json")
    run = steps.collect(tmp_path)
    assert [f.value for f in run.figures] == [1, 2]
    assert run.seconds == 180.0


def test_what_is_run_again_replaces_what_failed() -> None:
    before = made_up(figure("forks", "fork", "forks", 1, "bad"), figure("forks", "fork", "forks", 5, "good"))
    again = Run("later", "a machine", [Step("tests", 10.0, 1)], [figure("forks", "fork", "forks", 2, "bad")])
    run = before.with_again(again)
    assert run.failed == []
    assert [(step.passed, step.skipped, step.seconds) for step in run.steps] == [(8, ["s"], 100.0)]
    assert [(f.test, f.value) for f in run.figures] == [("good", 5), ("bad", 2)]
    assert "Failed at first in *tests*, and run again (reasons" in page.render(run)
    assert "no log was kept):\n\n- bad: not explained yet" in page.render(run)


def test_nothing_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="nothing was run yet"):
        steps.collect(tmp_path)


def test_what_failed_at_first_wants_a_reason() -> None:
    step = Step("tests", 90.0, 7, again=["a", "b"], why={"a": "its limit was too short"})
    run = Run("2026-01-01 00:00 UTC", "a machine", [step], [])
    assert run.unexplained == ["b"]
    text = page.render(run)
    assert "- a: its limit was too short" in text and "- b: not explained yet" in text
