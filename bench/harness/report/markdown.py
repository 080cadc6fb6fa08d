# SPDX-License-Identifier: MIT
#
# markdown.py: docs/benchmarks.md: what the page says in tables, with a few small drawings as files beside it. The same
# results always give the same text, so that a test can tell when the document is out of date.
"""The report as Markdown."""

from __future__ import annotations

import re
from pathlib import Path

from harness.report import plots
from harness.report.measured import Measured
from harness.report.page import context, environment
from harness.report.summary import MEAN_COLUMNS
from harness.report.svg import Plot
from harness.report.words import interval, ratio

COMMAND = "bench/lab report --markdown docs/benchmarks.md RESULTS"
# What is drawn, if it was measured: of each, the first that was.
SCALING = (("larson-lfmalloc", "larson-michael"), ("linux-scalability-michael", "mmicro-lfmalloc"))
RSS = (("kv-cache", "cache", "rss"), ("burst-idle", "phases-2"))


def render(measured: Measured, folder: str) -> tuple[str, dict[str, str]]:
    """The document, and the files that belong into `folder` beside it, by name."""
    shared = context(measured)
    columns = list(MEAN_COLUMNS)
    means_plot = plots.geomeans(shared["means"], (columns[0], columns[2]))
    drawings = _drawings(measured)
    files = {f"{plot.name}.svg": plot.file() for plot in (means_plot, *drawings) if plot}
    made = environment()
    made.autoescape = False
    made.filters.update(interval=interval, winner=_winner, bold=lambda text: f"**{text}**")
    text = made.get_template("benchmarks.md.j2").render(
        **shared,
        command=COMMAND,
        means_file=f"{folder}/{means_plot.name}.svg" if means_plot else "",
        means_alt=means_plot.alt if means_plot else "",
        drawings=[{"alt": plot.alt, "file": f"{folder}/{plot.name}.svg"} for plot in drawings],
    )
    return _tidy(text), files


def write(measured: Measured, path: Path) -> None:
    """Writes document and drawings; drawings of an earlier report go."""
    folder = path.with_suffix("")
    text, files = render(measured, folder.name)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, drawing in files.items():
        (folder / name).write_text(drawing)
    path.write_text(text)


def _drawings(measured: Measured) -> list[Plot]:
    found: list[Plot | None] = []
    for names in SCALING:
        workload = next((measured.workload(n) for n in names if len(measured.cases_of(n)) > 1), None)
        found.append(plots.scaling(measured, workload, workload.metrics[0]) if workload else None)
    for names in RSS:
        case = next((measured.cases_of(n)[-1] for n in names if measured.cases_of(n)), None)
        found.append(plots.rss_curves(measured, case) if case else None)
    return [plot for plot in found if plot]


def _winner(value: float | None) -> str:
    if value is None:
        return "–"
    return f"**{ratio(value)}**" if value <= 1.005 else ratio(value)


def _tidy(text: str) -> str:
    """Single empty lines, none within a table."""
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text)
    text = re.sub(r"(?<=\|)\n\n(?=\|)", "\n", text)
    return text.strip() + "\n"
