# SPDX-License-Identifier: MIT
"""The drawings, numbers as text, and the kept document."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from harness.report import markdown, plots, readme_table, svg
from harness.report.lineup import style
from harness.report.measured import Measured, load
from harness.report.words import number, ratio, slug
from harness.results import Case
from synthetic import NAMES, run_line, sample

Make = Callable[[Iterable], Measured]
ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs/benchmarks.md"


def curves(measured: Make) -> Measured:
    """larson-michael with all allocators and memory over time."""
    lines = [run_line(["larson-michael"])]
    for place, name in enumerate(NAMES, 1):
        for threads in (1, 2, 4, 8, 16):
            rss = tuple((at / 50, 1000 + at * place) for at in range(500))
            lines.append(sample("larson-michael", name, 0, 100 * place, threads=threads, rss=rss))
    return measured(lines)


def test_a_drawing_is_xml_with_its_words_and_without_foreign_loads(measured: Make) -> None:
    made = curves(measured)
    workload = made.workload("larson-michael")
    scaling = plots.scaling(made, workload, workload.metrics[0])
    for plot in (scaling, plots.dots(made, workload, made.cases[0]), plots.rss_curves(made, made.cases[0])):
        root = ElementTree.fromstring(plot.file())
        assert root.attrib["aria-label"] == plot.alt
        assert svg.INK not in plot.inline()
        assert "clip-path" not in plot.inline()
        assert len(plot.inline()) < 40_000
        labels = "".join(root.itertext())
        for name in NAMES:
            assert name in labels


def test_the_same_figures_give_the_same_drawing(measured: Make) -> None:
    made = curves(measured)
    workload = made.workload("larson-michael")
    both = [plots.scaling(made, workload, workload.metrics[0]).file() for _ in range(2)]
    assert both[0] == both[1]


def test_memory_over_time_keeps_its_peak(measured: Make) -> None:
    points = [(float(at), 5000 if at == 777 else 100) for at in range(1000)]
    thinned = plots._thinned(points)
    assert len(thinned) <= plots.MOST_RSS_POINTS
    assert (777.0, 5000) in thinned


def test_nothing_measured_is_no_drawing(measured: Make) -> None:
    made = measured([run_line(["lifo", "larson-michael"])])
    workload = made.workload("lifo")
    assert plots.dots(made, workload, Case("lifo")) is None
    assert plots.scaling(made, made.workload("larson-michael"), workload.metrics[0]) is None
    assert plots.rss_curves(made, Case("lifo")) is None
    assert plots.geomeans([], ("a", "b")) is None


def test_allocators_can_be_told_apart_without_colour() -> None:
    looks = [style(name) for name in NAMES]
    assert len({(look.colour, look.line, look.marker) for look in looks}) == len(NAMES)
    assert len({(look.line, look.marker) for look in looks}) >= len(NAMES) - 2


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0123, "0.012"), (0.5, "0.5"), (3.14159, "3.14"), (10, "10"), (12.345, "12.3"), (123.4, "123"),
     (1234, "1\u202f230"), (70_749_108, "70\u202f749\u202f108"), (-2.5, "-2.5")],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_ratios_and_words() -> None:
    assert [ratio(value) for value in (None, 0.5, 12.34, 331)] == ["–", "0.50", "12.3", "331"]
    assert slug("Larson x16: ns/op") == "larson-x16-ns-op"


def test_the_document_has_tables_and_its_drawings(measured: Make, tmp_path: Path) -> None:
    markdown.write(curves(measured), tmp_path / "benchmarks.md")
    text = (tmp_path / "benchmarks.md").read_text()
    files = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert files
    for file in files:
        assert (tmp_path / file).stat().st_size < 60_000
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        widths = {line.count("|") for line in block.splitlines()}
        assert len(widths) == 1, block


def test_the_kept_document_is_what_the_kept_results_give() -> None:
    kept = sorted(path for path in (ROOT / "bench/results").glob("*.jsonl*"))
    if not kept:
        pytest.skip("no results are kept yet")
    text, files = markdown.render(Measured(load(kept)), DOCUMENT.stem)
    assert DOCUMENT.read_text() == text, f"out of date: {markdown.COMMAND}"
    for name, drawing in files.items():
        assert (DOCUMENT.with_suffix("") / name).read_text() == drawing


def test_the_readme_has_the_figures_that_the_kept_results_give() -> None:
    kept = sorted(path for path in (ROOT / "bench/results").glob("*.jsonl*"))
    shown = (ROOT / "README.md").read_text().splitlines()
    assert [row for row in readme_table(kept).splitlines() if row not in shown] == []
