# SPDX-License-Identifier: MIT
#
# table.py: how a paper's table is declared beside ours. The printed half is text, as the paper has it. Our half is
# made of Figures, which name what to look up; so a test can ask every Figure whether its workload exists, and a table
# cannot become empty unnoticed when a workload is renamed.
"""Declarations for the comparison with the papers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.report.measured import Measured
from harness.report.words import NOT_MEASURED, is_prose, number, ratio
from harness.results import Case
from harness.statistics import median, unpaired_ratio
from harness.workload import CPU_NS, WALL_NS, Metric

NO_DENOMINATOR = ""  # what the paper divided by does not exist today


@dataclass(frozen=True)
class At:
    """A figure's place: a workload under an allocator."""

    workload: str
    allocator: str
    threads: int | None = None
    key: str = WALL_NS

    def values(self, measured: Measured) -> dict[int, float]:
        """By repeat."""
        return measured.figures(Metric(self.key, ""), Case(self.workload, self.threads), self.allocator)


def percent_more(value: float) -> str:
    """A ratio as the papers print improvements: 1.41 is +41 %."""
    return f"{(value - 1) * 100:+.0f} %".replace("-", "−")


def times(value: float) -> str:
    """A ratio as `2.25 ×`."""
    return f"{ratio(value)} ×"


def mib(value: float) -> str:
    """KiB as MiB."""
    return number(value / 1024)


@dataclass(frozen=True)
class Figure:
    """One cell of ours: a figure, or with `under` the ratio of two."""

    over: At
    under: At | None = None
    form: Callable[[float], str] = times

    def places(self) -> Iterator[At]:
        """What it looks up."""
        yield self.over
        if self.under:
            yield self.under

    def value(self, measured: Measured) -> float | None:
        """The median; of a ratio, of the ratios within repeats where both are of one case."""
        top = self.over.values(measured)
        if not self.under:
            return median(list(top.values())) if top else None
        bottom = self.under.values(measured)
        if (self.over.workload, self.over.threads) == (self.under.workload, self.under.threads):
            pairs = [top[repeat] / bottom[repeat] for repeat in top if bottom.get(repeat)]
            return median(pairs) if pairs else None
        good = top and bottom and min(*top.values(), *bottom.values()) > 0
        return unpaired_ratio(list(top.values()), list(bottom.values())).median if good else None

    def text(self, measured: Measured) -> str:
        """The cell."""
        value = self.value(measured)
        return NOT_MEASURED if value is None else self.form(value)


@dataclass(frozen=True)
class Span:
    """Several figures as `lowest – highest (mean)`: a curve, as the papers put it in words."""

    figures: tuple[Figure, ...]

    def places(self) -> Iterator[At]:
        """What it looks up."""
        for figure in self.figures:
            yield from figure.places()

    def text(self, measured: Measured) -> str:
        """The cell."""
        values = [value for figure in self.figures if (value := figure.value(measured)) is not None]
        if not values:
            return NOT_MEASURED
        form = self.figures[0].form
        if len(values) == 1:
            return form(values[0])
        return f"{form(min(values))} … {form(max(values))} (mean {form(sum(values) / len(values))})"


@dataclass(frozen=True)
class Counted:
    """Instructions or locked read-modify-writes of one operation, which are counted, not timed."""

    pair: str
    allocator: str
    what: str  # "instructions" or "locked_rmw"

    def places(self) -> Iterator[At]:
        """None: counts are not of workloads."""
        return iter(())

    def text(self, measured: Measured) -> str:
        """The cell."""
        for count in measured.results.counts:
            value = getattr(count, self.what)
            if count.pair == self.pair and count.allocator == self.allocator and value is not None:
                return number(value)
        return NOT_MEASURED


Cell = Figure | Span | Counted | str  # a str is said as it is


@dataclass(frozen=True)
class Row:
    """A line: what the paper prints, and what we look up."""

    label: str
    printed: tuple[str, ...]
    ours: tuple[Cell, ...]


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of a paper beside ours."""

    item: str  # "Table 1"
    title: str  # what is measured, and how the ratio is made
    printed_columns: tuple[str, ...]
    our_columns: tuple[str, ...]
    rows: tuple[Row, ...]
    denominator: str  # the paper's, and ours in its place
    why: str  # a sentence on why the two halves differ

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.printed) != len(self.printed_columns) or len(row.ours) != len(self.our_columns):
                raise ValueError(f"{self.item}: the row '{row.label}' does not fit the columns")

    @property
    def prose(self) -> list[bool]:
        """Which printed columns hold words rather than figures."""
        return [any(is_prose(row.printed[place]) for row in self.rows) for place in range(len(self.printed_columns))]

    def places(self) -> Iterator[At]:
        """Everything it looks up."""
        for row in self.rows:
            for cell in row.ours:
                if not isinstance(cell, str):
                    yield from cell.places()

    def is_measured(self, measured: Measured) -> bool:
        """Whether any cell of ours has a figure."""
        cells = [cell for row in self.rows for cell in row.ours if not isinstance(cell, str)]
        return any(cell.text(measured) != NOT_MEASURED for cell in cells)


@dataclass(frozen=True)
class Paper:
    """A paper's tables."""

    key: str  # the engine's name
    citation: str
    machine: str  # what the paper measured on
    tables: tuple[PaperTable, ...]


def text_of(cell: Cell, measured: Measured) -> str:
    """What stands in the cell; a dash where there is nothing to divide by."""
    if isinstance(cell, str):
        return cell or "–"
    return cell.text(measured)


def speed_up(workload: str, allocator: str, over: str, threads: int | None = None, key: str = CPU_NS) -> Figure:
    """How many times faster `allocator` is than `over` at the same number of threads."""
    return Figure(At(workload, over, threads, key), At(workload, allocator, threads, key))


def scaled_up(workload: str, allocator: str, threads: int, over: str) -> Figure:
    """Throughput at `threads` over `over`'s throughput with one thread, by the clock."""
    return Figure(At(workload, over, 1), At(workload, allocator, threads))


def improvements(workload: str, allocator: str, over: str, threads: Sequence[int | None], key: str = WALL_NS) -> Span:
    """By how many percent `over` takes longer, over numbers of threads."""
    return Span(
        tuple(Figure(At(workload, over, n, key), At(workload, allocator, n, key), percent_more) for n in threads)
    )
