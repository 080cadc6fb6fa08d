# SPDX-License-Identifier: MIT
"""Numbers, ratios and names as text, the same on the page, in Markdown and in plots."""

from __future__ import annotations

import re

from harness.statistics import Ratio
from harness.workload import Metric

NOT_MEASURED = "not measured"


def number(value: float) -> str:
    """Three significant digits, thousands set apart; no exponents."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        digits = 0 if size >= 10_000 else -1
        rounded = round(value, digits) if size < 100_000 else round(value)
        return f"{rounded:,.0f}".replace(",", "\u202f")
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}".removesuffix(".0")
    text = f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def ratio(value: float | None) -> str:
    """Two decimals, fewer when it is large; what is missing is a dash."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(found: Ratio) -> str:
    """`(1.20–1.27)`; nothing where there was but one sample."""
    return f"({ratio(found.low)}–{ratio(found.high)})" if found.count > 1 else ""


def interval(found: Ratio | None) -> str:
    """`1.23 (1.20–1.27)`; without the interval where there was but one sample."""
    if found is None:
        return "–"
    return f"{ratio(found.median)} {spread(found)}".rstrip()


def slug(text: str) -> str:
    """A word for ids and file names."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def is_prose(text: str) -> bool:
    """Whether a cell is words rather than a figure."""
    return sum(character.isalpha() for character in text) > 6


def titled(metric: Metric) -> str:
    """A metric with its unit."""
    return f"{metric.label}, {metric.unit}" if metric.unit else metric.label


def when(run: str) -> str:
    """A run's name, which is its time, for readers: `2030-01-02 03:04 UTC`."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(\.\d+)?(\+00:00|Z)", run)
    return f"{found[1]} {found[2]} UTC" if found else run
