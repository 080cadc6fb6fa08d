# SPDX-License-Identifier: MIT
#
# over_time.py: the lines of `lab pulse` as a picture: a panel for each figure, a point for each line, a colour for each
# machine, since figures of different machines do not compare. Points that others disturbed are hollow.
"""Figures over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.pulse import FREEWAY, GLIBC, metrics
from harness.report import svg
from harness.report.svg import Plot
from harness.report.words import number
from harness.results import ResultsError
from harness.runner import NOISY
from harness.workload import CPU_NS

COLUMNS, WIDTH_IN, ROW_IN, HEAD_IN = 3, 7.6, 1.25, 0.5
MACHINE_IN = 0.17  # a line of the legend
COLOURS = ("#d1495b", "#4477aa", "#228833", "#aa4fb0", "#d19a00", "#3aa79a", "#949494")  # the last for all others
MOST_POINTS = 100  # with more lines there are no points, only what connects them
LEAST_SPAN = 0.1  # of the values: a smaller change does not fill a panel

Line = dict[str, Any]


class Point(NamedTuple):
    """A figure of one line, with its interval."""

    value: float
    low: float
    high: float


class Panel(NamedTuple):
    """One figure: what it is called, and where a line has it (None: it has not)."""

    title: str
    points: list[Point | None]
    is_ratio: bool


def panels(lines: Sequence[Line]) -> list[Panel]:
    """The figures, in the order of the picture."""
    found = [
        _panel(lines, "instructions of a pair", lambda line: _pair(line, "")),
        _panel(lines, "the same without rseq", lambda line: _pair(line, "owned_")),
    ]
    for case, metric in metrics():
        points = [Point(*r) if (r := line["ratios"].get(f"{case}.{metric.key}")) else None for line in lines]
        title = str(case) if metric.key == CPU_NS else f"{case}, {metric.key.removesuffix('_ns')}"
        found.append(Panel(f"{title}, time / glibc", points, is_ratio=True))
    found.append(_panel(lines, "hello, KiB above glibc", _more_kib))
    return found


def _panel(lines: Sequence[Line], title: str, value_of: Callable[[Line], float | None]) -> Panel:
    values = [value_of(line) for line in lines]
    return Panel(title, [None if v is None else Point(v, v, v) for v in values], is_ratio=False)


def _more_kib(line: Line) -> int:
    return line["hello_kib"][FREEWAY] - line["hello_kib"][GLIBC]


def _pair(line: Line, prefix: str) -> int | None:
    counts = [line["instructions"].get(prefix + name) for name in ("malloc", "free")]
    return None if None in counts else sum(counts)


def machine_of(line: Line) -> str:
    """What figures are told apart by."""
    machine = line["machine"]
    return f"{machine['model']}, {machine['cpus']} CPUs"


def draw(lines: Sequence[Line]) -> Plot:
    """The picture of lines that are in the order of time. ResultsError if there are none."""
    if not lines:
        raise ResultsError("no line is kept yet: `make pulse` makes one")
    machines = list(dict.fromkeys(map(machine_of, lines)))
    shown = panels(lines)
    rows = -(-len(shown) // COLUMNS)
    legend_in = MACHINE_IN * min(len(machines), len(COLOURS))
    height = HEAD_IN + ROW_IN * rows + legend_in
    with svg.settings():
        figure = Figure(figsize=(WIDTH_IN, height))
        figure.subplots_adjust(0.06, (HEAD_IN + legend_in) / height, 0.985, 1 - 0.25 / height, wspace=0.25, hspace=0.55)
        grid = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
        for place, (axes, panel) in enumerate(zip(grid, shown, strict=False)):
            _draw_panel(axes, panel, lines, machines)
            _time_axis(axes, lines, labelled=place >= len(shown) - COLUMNS)
        for axes in grid[len(shown) :]:
            axes.set_axis_off()
        for place, name in enumerate(machines[: len(COLOURS)]):
            is_rest = place == len(COLOURS) - 1 and len(machines) > len(COLOURS)
            at = (legend_in - MACHINE_IN * place) / height
            said = "other machines" if is_rest else name
            figure.text(0.06, at, f"● {said}", color=COLOURS[place], fontsize=svg.FONT_PT - 1)
        return svg.finish(figure, "pulse", alt(lines, shown))


def _draw_panel(axes: Axes, panel: Panel, lines: Sequence[Line], machines: Sequence[str]) -> None:
    if panel.is_ratio:
        axes.axhline(1, color=svg.INK, linewidth=0.6, alpha=0.5)
    for which, name in enumerate(machines):
        colour = COLOURS[min(which, len(COLOURS) - 1)]
        mine = [(at, p) for at, p in enumerate(panel.points) if p is not None and machine_of(lines[at]) == name]
        axes.plot([at for at, _ in mine], [p.value for _, p in mine], color=colour, linewidth=0.8, alpha=0.6)
        ends = [(at, edge) for at, p in mine if p.low < p.high for edge in (p.low, p.high, math.nan)]
        if ends:
            axes.plot(*zip(*ends, strict=True), color=colour, linewidth=0.7, alpha=0.5)
        for disturbed in (False, True) if len(lines) <= MOST_POINTS else ():
            some = [(at, p.value) for at, p in mine if (lines[at]["foreign_cpu"] > NOISY) == disturbed]
            axes.plot(
                [at for at, _ in some], [value for _, value in some], color=colour, marker="o", markersize=3.5,
                linestyle="", markerfacecolor="none" if disturbed else colour,
            )  # fmt: skip
    known = [edge for point in panel.points if point for edge in (point.low, point.high)]
    if known:
        low, high = min(known), max(known)
        room = max((high - low) * 0.15, (LEAST_SPAN * high - (high - low)) / 2)
        axes.set_ylim(low - room, high + room)
    axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.grid(visible=True, axis="y")
    axes.set_title(panel.title, fontsize=svg.FONT_PT - 1, loc="left", pad=4)


def _time_axis(axes: Axes, lines: Sequence[Line], labelled: bool) -> None:
    """Lines at equal distances, the first and the last with date and commit."""
    last = len(lines) - 1
    axes.set_xlim(-0.5, last + 0.5)
    ends = [0] if last == 0 else [0, last]
    said = [f"{lines[at]['at'][:10]}\n{lines[at]['commit'] or 'no commit'}" for at in ends]
    axes.set_xticks(ends, said if labelled else [""] * len(ends))
    aligned = ("center",) if last == 0 else ("left", "right")
    for label, align in zip(axes.get_xticklabels(), aligned, strict=True):
        label.set_horizontalalignment(align)
        label.set_fontsize(svg.FONT_PT - 2)


def alt(lines: Sequence[Line], shown: Sequence[Panel]) -> str:
    """How many lines there are, and what the last one says."""
    last = lines[-1]
    figures = "; ".join(f"{panel.title}: {number(panel.points[-1].value)}" for panel in shown if panel.points[-1])
    count = f"{len(lines)} line{'' if len(lines) == 1 else 's'}"
    return f"{count}. The last, {last['at'][:10]} at {last['commit'] or 'no commit'}: {figures}."
