# SPDX-License-Identifier: MIT
"""The report: results files as one HTML page, as docs/benchmarks.md, and as the README's table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["make_report", "readme_table"]


def make_report(results: Path | Sequence[Path], html: Path, markdown: Path | None = None) -> None:
    """Writes the page to `html` and, if asked for, Markdown to `markdown` with its plots in the folder of its name."""
    from harness.report import markdown as text  # matplotlib takes a second to load; `lab run` needs none of it
    from harness.report import page
    from harness.report.measured import Measured, load

    measured = Measured(load([results] if isinstance(results, Path) else results))
    html.parent.mkdir(parents=True, exist_ok=True)
    html.write_text(page.html(measured))
    if markdown:
        text.write(measured, markdown)


def readme_table(results: Path | Sequence[Path]) -> str:
    """The README's table of what it costs, in Markdown."""
    from harness.report.measured import Measured, load
    from harness.report.readme import table

    return table(Measured(load([results] if isinstance(results, Path) else results)))
