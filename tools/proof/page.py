# SPDX-License-Identifier: MIT
"""A run as a page: one table an area."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import jinja2

from tools.lint.measured import said_of_run
from tools.proof.record import ENGINES, Figure, Run

# In the page's order, with what the reader must know about each. An area that is not listed here comes last.
AREAS = {
    "models": "Small programs over the shipped templates, in all their executions under C++'s weak memory orders"
    " (`tests/explorer/README.md`). *Exhausted* are the programs of which every distinguishable execution was seen; the"
    " others were cut at a number of executions, or walked at random.",
    "models, a thread stopped for ever": "The same, once for each thread and each of its atomic operations: the thread"
    " stops there for ever, the others must finish, and what is lost is bounded.",
    "mutants": "Faults planted in the shipped code, and memory orders taken away one at a time: each must be noticed.",
    "instructions": "A thread is stopped before each instruction in turn; there a signal handler allocates, forks or"
    " jumps out, or the thread stays or vanishes.",
    "sections": "The same inside restartable sequences, where the interrupted section must start again with nothing"
    " changed.",
    "steps": "The longest calls, executed one instruction at a time, with nobody else in the way"
    " (`tests/whole/steps/README.md`).",
    "stops and kills": "Threads and processes that stop or die anywhere while the others go on.",
    "forks": "Children of processes whose threads are inside the allocator.",
    "system calls": "System calls of the library that the kernel refused, and what came after.",
    "bad input": "Pointers, sizes, alignments and settings that no correct program uses.",
    "fuzzing": "Random inputs against an oracle, and the kept inputs that every test run goes through again.",
    "programs": "Programs that are not ours, or that do one thing, from beginning to end.",
    "machines": "Machines that are not at hand, by pretended answers of the kernel or in an emulator.",
}
# Areas of templates: their subjects are names of test suites, and engines are not told apart.
_SUITES = ("models", "models, a thread stopped for ever", "mutants")
_TEMPLATE = Path(__file__).with_name("page.md.j2")
_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Row:
    """A line of a table; cells in the order of the table's columns, None where nothing was counted."""

    subject: str
    mode: str
    cells: list[int | None]
    tests: list[str]


@dataclass
class Table:
    """All figures of one area."""

    area: str
    about: str
    columns: list[str]
    rows: list[Row]
    total: list[int | None]
    has_modes: bool


def spoken(suite: str) -> str:
    """`TaggedStackModel` -> `tagged stack`; what is words already stays."""
    if not re.fullmatch(r"[A-Z]\w*", suite):
        return suite
    name = re.sub(r"(Model|Models|Mutants)$", "", suite)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower() or suite


def _add(figures: Iterable[Figure]) -> int | None:
    values = list(figures)
    if not values:
        return None
    return max(f.value for f in values) if all(f.most for f in values) else sum(f.value for f in values)


def _base(test: str) -> str:
    """The test without engine and mode."""
    name = re.sub(r"\.(rseq|no-rseq)$", "", test)
    return re.sub(rf"^(?:{'|'.join(ENGINES)})(?:-\w+)?\.", "", name)


def _table(area: str, figures: list[Figure]) -> Table:
    columns = list(dict.fromkeys(f.what for f in figures))
    suites = area in _SUITES

    def key(figure: Figure) -> tuple[str, str]:
        if suites:
            name = spoken(figure.subject)
            return (name if figure.engine in name else f"{figure.engine}, {name}"), ""
        if figure.engine:
            return f"all of it, engine {figure.engine}", ""
        return figure.subject, figure.mode

    def cells(wanted: Callable[[Figure], bool]) -> list[int | None]:
        return [_add(f for f in figures if f.what == what and wanted(f)) for what in columns]

    # The paper engines come last: what was tried with them is one line each.
    keys = sorted(dict.fromkeys(key(f) for f in figures), key=lambda k: k[0].startswith("all of it, engine "))
    rows = [
        Row(subject, mode, cells(lambda f, k=(subject, mode): key(f) == k),
            sorted({_base(f.test) for f in figures if key(f) == (subject, mode)}))
        for subject, mode in keys
    ]  # fmt: skip
    return Table(area, AREAS.get(area, ""), columns, rows, cells(lambda _: True), any(row.mode for row in rows))


def tables(run: Run) -> list[Table]:
    """One table for each area that has figures."""
    areas = [*AREAS, *dict.fromkeys(f.area for f in run.figures if f.area not in AREAS)]
    found = ((area, [f for f in run.figures if f.area == area]) for area in areas)
    return [_table(area, figures) for area, figures in found if figures]


def number(value: int | None) -> str:
    """Digits in groups of three; a dash for nothing."""
    return "–" if value is None else f"{value:,}".replace(",", "\u202f")


def render(run: Run) -> str:
    """The page, as Markdown."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        autoescape=False,
    )  # fmt: skip
    environment.filters["number"] = number
    commit = said_of_run(_ROOT, run.begun) or (f"commit {run.commit}" if run.commit else "")
    at_commit = f" Run at {commit}." if commit else ""
    return environment.from_string(_TEMPLATE.read_text()).render(run=run, tables=tables(run), at_commit=at_commit)
