# SPDX-License-Identifier: MIT
#
# svg.py: matplotlib's figures as SVG that can stand in a page beside hundreds of others. What is drawn in INK follows
# the text's colour, so that one drawing serves light and dark pages; ids get a prefix, so that they stay unique;
# metadata and the XML head are dropped. Text stays text: small, searchable, read aloud.
"""Drawing surfaces and SVG text."""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass
from html import escape

import matplotlib as mpl

mpl.use("svg")
from matplotlib.figure import Figure

INK = "#123456"  # no colour of any line: it is replaced by the text's colour
FILE_INK = "#757575"  # legible on white and on black: an <img> cannot follow the page's colour
FONT_PT = 9.0
_PX_PER_PT = 96 / 72

_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "freeway",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": FONT_PT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    "path.simplify": True,
}
_DROPPED = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>"
    r"|<clipPath.*?</clipPath>| clip-path=\"[^\"]*\"|<defs>\s*</defs>| transform=\"rotate\(-0 [^)]*\)\""
    r"|(?<=style=\")fill: currentColor; (?=stroke)",
    re.DOTALL,
)
_ID = re.compile(r'\bid="([^"]+)"')
_USE = re.compile(r'(?:xlink:)?href="#([^"]+)"')
_SIZE = re.compile(r'<svg [^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')
_NUMBER = re.compile(r"(?<![\w#.])-?\d+\.\d{2,}")
_DATA = re.compile(r' (d|x|y|transform)="([^"]*)"')
_STYLE = re.compile(r' style="([^"]*)"')
_CIRCLE = re.compile(r'<path (id="[^"]+") d="M0 ([\d.]+)(?:C[^CLz"]+){8}z"')  # as matplotlib draws a round marker
_GROUP = re.compile(r"<g\s*/>|<g\b[^>]*>|</g>")


@dataclass(frozen=True)
class Plot:
    """A drawing with the words for those who cannot see it."""

    name: str  # a word for ids and file names
    alt: str
    text: str  # the <svg> element, in INK

    def inline(self) -> str:
        """For the page itself: coloured by it."""
        return self.text.replace(INK, "currentColor")

    def file(self) -> str:
        """For a file of its own."""
        body = self.text.replace(INK, FILE_INK)
        return body.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


@dataclass(frozen=True)
class Margins:
    """Room around the axes for labels, in inches. Fixed ones: letting matplotlib find them takes as long as drawing."""

    left: float = 0.62
    right: float = 0.12
    top: float = 0.1
    bottom: float = 0.5
    between: float = 0.18


def surface(width: float, height: float, columns: int = 1, margins: Margins | None = None) -> tuple[Figure, list]:
    """A figure of so many inches with axes side by side."""
    room = margins or Margins()
    figure = Figure(figsize=(width, height))
    each = (width - room.left - room.right - room.between * (columns - 1)) / columns
    figure.subplots_adjust(
        room.left / width, room.bottom / height, 1 - room.right / width, 1 - room.top / height, room.between / each
    )
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def settings() -> object:
    """The settings as a context: what creates text or ticks inside a figure needs them, too."""
    return mpl.rc_context(_SETTINGS)


def finish(figure: Figure, name: str, alt: str) -> Plot:
    """The figure as a Plot."""
    sink = io.StringIO()
    with mpl.rc_context(_SETTINGS):
        figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    prefix = f"p{hashlib.sha256(name.encode()).hexdigest()[:6]}-"
    return Plot(name, alt, _compact(sink.getvalue(), prefix, alt))


def _compact(text: str, name: str, alt: str) -> str:
    """A third of what matplotlib writes, and nothing that could meddle with a page."""
    text = _DROPPED.sub("", text)
    names = {old: f"{name}{place}" for place, old in enumerate(dict.fromkeys(_USE.findall(text)))}
    text = _ID.sub(lambda m: f'id="{names[m[1]]}"' if m[1] in names else "", text)
    text = _USE.sub(lambda m: f'href="#{names[m[1]]}"', text)
    text = _DATA.sub(lambda m: f' {m[1]}="{_data(m[2])}"', text)
    text = _CIRCLE.sub(lambda m: f'<circle {m[1]} r="{m[2]}"', text)
    text = _STYLE.sub(lambda m: f' style="{_style(m[1])}"', text)
    width, height = _SIZE.search(text).groups()
    opening = (
        f'<svg viewBox="0 0 {width} {height}" width="{float(width) * _PX_PER_PT:.0f}" '
        f'height="{float(height) * _PX_PER_PT:.0f}" role="img" aria-label="{escape(alt)}" '
        f'font-family="system-ui, sans-serif" font-size="{FONT_PT:g}px" fill="{INK}" stroke-linejoin="round">'
    )
    text = _without_plain_groups(_SIZE.sub(lambda _: opening, text, count=1))
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def _data(text: str) -> str:
    """Coordinates to a tenth of a point."""
    text = _NUMBER.sub(lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), text)
    return re.sub(r"\s*([MLCQz])\s*", r"\1", text).strip()


def _style(text: str) -> str:
    """Without what the whole drawing has: its font and its ink."""
    text = re.sub(rf"font-family: [^;]*;? ?|font-size: {FONT_PT:g}px; |; fill: {INK}$", "", text)
    return re.sub(r"([:;]) ", r"\1", text)


def _without_plain_groups(text: str) -> str:
    """Groups that say nothing are dropped, with their ends."""
    kept: list[bool] = []

    def replace(match: re.Match[str]) -> str:
        tag = match[0]
        if tag.endswith("/>"):
            return ""
        if tag != "</g>":
            kept.append(tag.strip("<g> ") != "")
            return tag if kept[-1] else ""
        return tag if kept.pop() else ""

    return _GROUP.sub(replace, text)
