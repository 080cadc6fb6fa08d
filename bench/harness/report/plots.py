# SPDX-License-Identifier: MIT
#
# plots.py: what is drawn. Little ink: points with quartile bars, lines with direct names, a logarithmic axis where
# values span more than a factor of ten. The flagship is drawn last and thickest.
"""The report's plots."""

from __future__ import annotations

import math
from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from harness.report import svg
from harness.report.lineup import FLAGSHIP, style
from harness.report.measured import Measured
from harness.report.summary import MeanRow
from harness.report.svg import Margins, Plot
from harness.report.words import number, slug
from harness.results import OK, Case
from harness.statistics import Quartiles
from harness.workload import PEAK_RSS, Metric, Workload

LOG_FROM = 10.0  # span of values from which on the axis is logarithmic
MAX_COLUMNS = 3  # metrics side by side
ROW_IN, HEAD_IN = 0.19, 0.62  # inches
CURVES = Margins(left=0.68, right=1.5)  # room for the names on the right
CHARACTER_IN = 0.075
LEAST_RSS_POINTS, MOST_RSS_POINTS = 5, 40


def _spans(values: Iterable[float]) -> bool:
    known = [value for value in values if value > 0]
    return bool(known) and max(known) / min(known) > LOG_FROM


def _shown(metric: Metric) -> tuple[float, str]:
    """What a value is divided by for a drawing, and the unit then."""
    return (1024, "MiB") if metric.unit == "KiB" else (1, metric.unit)


def _value_axis(axes: Axes, which: str, values: Iterable[float], *, may_log: bool = True) -> None:
    """Plain numbers on the axis; logarithmic if the values want it."""
    values = list(values)
    axis = axes.xaxis if which == "x" else axes.yaxis
    if may_log and _spans(values):
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if max(values) / min(values) < 200 else (1,)))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(4 if which == "x" else 5, steps=[1, 2, 2.5, 5, 10]))
        top = max(values, default=1.0)
        (axes.set_xlim if which == "x" else axes.set_ylim)(0, top * 1.08 if top > 0 else 1)
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.grid(visible=True, axis=which)


def _names_margins(names: list[str]) -> Margins:
    return Margins(left=0.15 + CHARACTER_IN * max(map(len, names)))


def dots(measured: Measured, workload: Workload, case: Case) -> Plot | None:
    """Median and quartiles of each metric, an allocator a line."""
    metrics = list(dict.fromkeys([*workload.metrics[: MAX_COLUMNS - 1], PEAK_RSS]))
    found: dict[Metric, dict[str, Quartiles]] = {}
    for metric in metrics:
        cells = {name: measured.quartiles(metric, case, name) for name in measured.allocators}
        known = {name: cell for name, cell in cells.items() if cell is not None}
        if known:
            found[metric] = known
    names = [name for name in measured.allocators if any(name in cells for cells in found.values())]
    if not found or len(names) < 2:
        return None
    with svg.settings():
        figure, columns = svg.surface(
            1.4 + 2.3 * len(found), HEAD_IN + ROW_IN * len(names), len(found), _names_margins(names)
        )
        for axes, (metric, cells) in zip(columns, found.items(), strict=True):
            _draw_dots(axes, names, cells, metric, labelled=axes is columns[0])
        return svg.finish(figure, f"{slug(str(case))}-dots", _dots_alt(case, found))


def _draw_dots(axes: Axes, names: list[str], cells: dict[str, Quartiles], metric: Metric, labelled: bool) -> None:
    by, unit = _shown(metric)
    cells = {name: Quartiles(c.low / by, c.median / by, c.high / by, c.count) for name, c in cells.items()}
    for row, name in enumerate(names):
        if name in cells:
            cell, look = cells[name], style(name)
            axes.plot([cell.low, cell.high], [row, row], color=look.colour, linewidth=2.2, alpha=0.45)
            size = 7 if name == FLAGSHIP else 5
            axes.plot([cell.median], [row], marker="o", markersize=size, color=look.colour, linestyle="")
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), names if labelled else [])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for tick, name in zip(axes.get_yticklabels(), names, strict=False):
        tick.set_fontweight("bold" if name == FLAGSHIP else "normal")
    _value_axis(axes, "x", [edge for cell in cells.values() for edge in (cell.low, cell.median, cell.high)])
    direction = "higher is better" if metric.higher_is_better else ""
    axes.set_xlabel(", ".join(filter(None, [_axis_label(metric, unit), direction])))


def _axis_label(metric: Metric, unit: str) -> str:
    return f"{_short(metric.label)}, {unit}" if unit else _short(metric.label)


def _short(label: str, most: int = 34) -> str:
    return label if len(label) <= most else label[: most - 1].rstrip() + "…"


def _dots_alt(case: Case, found: dict[Metric, dict[str, Quartiles]]) -> str:
    metric, cells = next(iter(found.items()))
    ends = sorted(cells, key=lambda name: cells[name].median, reverse=metric.higher_is_better)
    said = f"{ends[0]} is best with {number(cells[ends[0]].median)} {metric.unit}"
    last = f", {ends[-1]} last with {number(cells[ends[-1]].median)}" if len(ends) > 1 else ""
    return f"{case}, {metric.label}: {said}{last}."


def scaling(measured: Measured, workload: Workload, metric: Metric) -> Plot | None:
    """A metric over the numbers of threads."""
    curves: dict[str, list[tuple[int, Quartiles]]] = {}
    for name in measured.allocators:
        points = [(case.threads, measured.quartiles(metric, case, name)) for case in measured.cases_of(workload.name)]
        known = [(threads, cell) for threads, cell in points if threads and cell]
        if known:
            curves[name] = known
    threads = sorted({at for points in curves.values() for at, _ in points})
    if len(threads) < 2:
        return None
    by, unit = _shown(metric)
    with svg.settings():
        figure, (axes,) = svg.surface(6.0, 3.3, margins=CURVES)
        for name in _flagship_last(curves):
            look, points, order = style(name), curves[name], 5 if name == FLAGSHIP else 2
            axes.plot(
                [at for at, _ in points], [cell.median / by for _, cell in points],
                color=look.colour, linestyle=look.line, linewidth=look.width,
                marker=look.marker, markersize=4.5, label=name, zorder=order,
            )  # fmt: skip
            ends = [(at, edge) for at, cell in points for edge in (cell.low / by, cell.high / by, math.nan)]
            axes.plot(*zip(*ends, strict=True), color=look.colour, linewidth=0.9, zorder=order)
        _thread_axis(axes, threads)
        _value_axis(axes, "y", [cell.median / by for points in curves.values() for _, cell in points])
        axes.set_ylabel(_axis_label(metric, unit))
        _legend(axes, list(curves))
        alt = f"{workload.name}: {metric.label} for {threads[0]} to {threads[-1]} threads, a line for each allocator."
        return svg.finish(figure, f"{slug(workload.name)}-{slug(metric.key)}-scaling", alt)


def _thread_axis(axes: Axes, threads: list[int]) -> None:
    """Logarithmic where the numbers grow by factors; labels thinned until they do not touch."""
    if threads[-1] >= max(8, 2 * len(threads)):
        axes.set_xscale("log", base=2)
        apart = [threads[0]]
        for at in threads[1:]:
            if math.log2(at / apart[-1]) > 0.4:
                apart.append(at)
    else:
        apart = threads if len(threads) <= 16 else threads[::2]
    axes.set_xticks(apart, [str(at) for at in apart])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.set_xlabel("threads")


def _flagship_last(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: name == FLAGSHIP)


def _legend(axes: Axes, order: list[str]) -> None:
    handles, labels = axes.get_legend_handles_labels()
    by_name = dict(zip(labels, handles, strict=True))
    rows = [by_name[name] for name in order if name in by_name]
    legend = axes.legend(
        rows,
        [n for n in order if n in by_name],
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        labelspacing=0.25,
        handlelength=2.6,
        borderaxespad=0.2,
    )
    for text in legend.get_texts():
        text.set_fontsize(svg.FONT_PT - 1)


def rss_curves(measured: Measured, case: Case) -> Plot | None:
    """Resident memory over time, of each allocator's sample with the median peak."""
    curves: dict[str, list[tuple[float, int]]] = {}
    for name in measured.allocators:
        good = [s for s in measured.results.of(case, name) if s.status == OK and len(s.rss) >= LEAST_RSS_POINTS]
        if good:
            middle = sorted(good, key=lambda s: max(kib for _, kib in s.rss))[len(good) // 2]
            curves[name] = _thinned(list(middle.rss))
    if not curves:
        return None
    with svg.settings():
        figure, (axes,) = svg.surface(6.0, 3.3, margins=CURVES)
        for name in _flagship_last(curves):
            look = style(name)
            seconds, mib = [at for at, _ in curves[name]], [kib / 1024 for _, kib in curves[name]]
            axes.plot(seconds, mib, color=look.colour, linestyle=look.line, linewidth=look.width, label=name)
        _value_axis(axes, "y", [kib / 1024 for points in curves.values() for _, kib in points], may_log=False)
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds")
        axes.set_ylabel("RSS, MiB")
        _legend(axes, list(curves))
        alt = f"{case}: resident memory over time, a line for each allocator."
        return svg.finish(figure, f"{slug(str(case))}-rss", alt)


def _thinned(points: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """At most so many points; of each stretch the highest, so that a peak is never lost."""
    points = [(at, kib) for at, kib in points if kib > 0]  # 0: it had just ended
    if len(points) <= MOST_RSS_POINTS:
        return points
    stretch = math.ceil(len(points) / MOST_RSS_POINTS)
    parts = [points[at : at + stretch] for at in range(0, len(points), stretch)]
    return [max(part, key=lambda point: point[1]) for part in parts]


def geomeans(rows: list[MeanRow], columns: tuple[str, str]) -> Plot | None:
    """The table of means, drawn: time and memory side by side, with intervals."""
    rows = [row for row in rows if any(row.means[column].ratio for column in columns)]
    if not rows:
        return None
    names = [row.allocator for row in rows]
    with svg.settings():
        figure, axes_of = svg.surface(7.4, HEAD_IN + ROW_IN * 1.15 * len(rows), 2, _names_margins(names))
        for axes, column in zip(axes_of, columns, strict=True):
            cells = {row.allocator: row.means[column].ratio for row in rows if row.means[column].ratio}
            quartiles = {name: Quartiles(r.low, r.median, r.high, r.count) for name, r in cells.items()}
            label = Metric("ratio", column, "geometric mean")
            _draw_dots(axes, names, quartiles, label, labelled=axes is axes_of[0])
            axes.axvline(1, color=svg.INK, linewidth=0.6, alpha=0.5)
        best = min((row for row in rows if row.means[columns[0]].ratio), key=lambda r: r.means[columns[0]].ratio.median,
                   default=rows[0])  # fmt: skip
        return svg.finish(figure, "geomeans", f"Geometric means of {' and '.join(columns)}; best: {best.allocator}.")
