# SPDX-License-Identifier: MIT
#
# svg.py: matplotlib's figures as SVG that can stand in a page beside hundreds of others. What is drawn in INK follows
# the text's colour, so that one drawing serves light and dark pages; ids get a prefix, so that they stay unique;
# metadata and the XML head are dropped. Text stays text: small, searchable, read aloud.
"""Drawing surfaces and SVG text."""

from __future__ import annotations

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
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL
)
_ID = re.compile(r'\bid="([^"]+)"')
_USE = re.compile(r"(url\(#|href=\"#)([^)\"]+)")
_SIZE = re.compile(r'<svg [^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')
_NUMBER = re.compile(r"(?<![\w#.])-?\d+\.\d{3,}")
_DATA = re.compile(r'( (?:d|x|y|transform|points|clip|width|height)=")([^"]*)"')


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


def surface(width: float, height: float, columns: int = 1) -> tuple[Figure, list]:
    """A figure of so many inches with axes side by side."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def settings() -> object:
    """The settings as a context: what creates text or ticks inside a figure needs them, too."""
    return mpl.rc_context(_SETTINGS)


def finish(figure: Figure, name: str, alt: str) -> Plot:
    """The figure as a Plot."""
    sink = io.StringIO()
    with mpl.rc_context(_SETTINGS):
        figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Plot(name, alt, _compact(sink.getvalue(), name, alt))


def _compact(text: str, name: str, alt: str) -> str:
    text = _DROPPED.sub("", text)
    used = {match.group(2) for match in _USE.finditer(text)}
    text = _ID.sub(lambda m: f'id="{name}-{m.group(1)}"' if m.group(1) in used else "", text)
    text = _USE.sub(lambda m: f"{m.group(1)}{name}-{m.group(2)}", text).replace("xlink:href", "href")
    text = _DATA.sub(lambda m: m.group(1) + _NUMBER.sub(_round, m.group(2)) + '"', text)
    width, height = _SIZE.search(text).groups()
    opening = (
        f'<svg viewBox="0 0 {width} {height}" width="{float(width) * _PX_PER_PT:.0f}" '
        f'height="{float(height) * _PX_PER_PT:.0f}" role="img" aria-label="{escape(alt)}" '
        f'font-family="system-ui, sans-serif" stroke-linejoin="round">'
    )
    text = _SIZE.sub(lambda _: opening, text, count=1)
    text = re.sub(r" font-family: 'DejaVu Sans'[^;\"]*;", "", text)
    text = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", text).replace("<g >", "<g>").replace("<use  ", "<use ")
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def _round(match: re.Match[str]) -> str:
    return f"{float(match.group(0)):.2f}".rstrip("0").rstrip(".")
