# SPDX-License-Identifier: MIT
#
# results.py: the results file. JSON lines, each written and flushed at once, so that an interrupted run keeps all that
# it measured:
#   {"kind": "run",    "format": 1, "id": ..., "suite": ..., "repeats": n, "shrink": n, "machine": {...},
#                      "allocators": [{"name", "library", "version", "variables", "failed"}], "workloads": [names],
#                      "commit": of the checkout, "+" behind it if files were changed}
#   {"kind": "sample", "run": id, "repeat": k, "workload": name, "threads": n or null, "allocator": name, "status": ...,
#                      "detail": "", "values": {...}, "checksum": "...", "rss": [[seconds, KiB], ...],
#                      "foreign_cpu": share, "noisy": bool}
#   {"kind": "count",  "run": id, "pair": name, "allocator": name, "instructions": n or null, "locked_rmw": n or null,
#                      "source": how it was counted}
# A resumed run adds a line of kind `run` and goes on; a later sample of the same place takes an earlier one's place.
"""The results file: what its lines hold, reading and writing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.workload import Metric

FORMAT = 1
OK, CRASHED, HUNG, WRONG_ALLOCATOR, WRONG_CHECKSUM, MISSING = (
    "ok",
    "crashed",
    "hung",
    "wrong-allocator",
    "wrong-checksum",
    "missing",
)


class ResultsError(Exception):
    """A results file that cannot be used; the message is for the user."""


@dataclass(frozen=True, order=True)
class Case:
    """One row of figures: a workload, with a number of threads where it has several."""

    workload: str
    threads: int | None = None

    def __str__(self) -> str:
        return self.workload if self.threads is None else f"{self.workload} x{self.threads}"


@dataclass(frozen=True)
class AllocatorRecord:
    """An allocator as it was when it was measured. `library` is a file's name only."""

    name: str
    library: str | None
    version: str
    variables: dict[str, str] = field(default_factory=dict)
    failed: str | None = None  # why it could not be measured at all


@dataclass(frozen=True)
class Run:
    """The head of a run."""

    id: str  # UTC time of its start
    suite: str
    repeats: int
    shrink: int
    machine: dict[str, Any]
    allocators: tuple[AllocatorRecord, ...]
    workloads: tuple[str, ...]
    format: int = FORMAT
    commit: str = ""  # of the checkout (machine.commit); older files do not say


@dataclass(frozen=True)
class Sample:
    """One program run once under one allocator."""

    run: str
    repeat: int
    workload: str
    threads: int | None
    allocator: str
    status: str
    detail: str = ""
    values: dict[str, float] = field(default_factory=dict)
    checksum: str = ""
    rss: tuple[tuple[float, int], ...] = ()
    foreign_cpu: float = 0.0
    noisy: bool = False

    @property
    def case(self) -> Case:
        """The row it belongs to."""
        return Case(self.workload, self.threads)

    @property
    def place(self) -> tuple[int, Case, str]:
        """What is measured once in a run."""
        return self.repeat, self.case, self.allocator


@dataclass(frozen=True)
class Count:
    """Instructions and locked read-modify-writes of one operation, which do not vary and are counted once."""

    run: str
    pair: str
    allocator: str
    instructions: float | None = None
    locked_rmw: float | None = None
    source: str = ""


class Results:
    """All that one file holds."""

    def __init__(self, runs: Iterable[Run], samples: Iterable[Sample], counts: Iterable[Count]) -> None:
        self.runs = list(runs)
        self._by_place = {sample.place: sample for sample in samples}
        self._cells: dict[tuple[Case, str], list[Sample]] = {}
        for sample in sorted(self._by_place.values(), key=lambda each: each.repeat):
            self._cells.setdefault((sample.case, sample.allocator), []).append(sample)
        self.counts = list({(c.pair, c.allocator, c.source): c for c in counts}.values())

    @property
    def samples(self) -> list[Sample]:
        """One sample of each place, the last one written."""
        return list(self._by_place.values())

    @property
    def machine(self) -> dict[str, Any]:
        """Where it was measured; all runs of a file agree."""
        return self.runs[-1].machine

    @property
    def allocators(self) -> dict[str, AllocatorRecord]:
        """By name, in the order of the runs."""
        return {record.name: record for run in self.runs for record in run.allocators}

    def cases(self) -> list[Case]:
        """Every row there is a sample of, in the order of measuring."""
        return list(dict.fromkeys(sample.case for sample in self.samples))

    def of(self, case: Case, allocator: str) -> list[Sample]:
        """The samples of one cell, by repeat, good and bad."""
        return self._cells.get((case, allocator), [])

    def figures(self, metric: Metric, case: Case, allocator: str) -> dict[int, float]:
        """One figure for each repeat that went well and has it."""
        found = {}
        for sample in self.of(case, allocator):
            if sample.status == OK:
                try:
                    found[sample.repeat] = metric.value(sample.values)
                except (KeyError, ZeroDivisionError):
                    continue
        return found


def read(path: Path) -> Results:
    """The file's contents; it may be packed (.gz). A last line cut short is left out; other faults: ResultsError."""
    runs: list[Run] = []
    samples: list[Sample] = []
    counts: list[Count] = []
    try:
        packed = path.suffix == ".gz"
        lines = (gzip.decompress(path.read_bytes()).decode() if packed else path.read_text()).split("\n")
    except (OSError, EOFError) as error:  # EOFError: packed, and cut short
        raise ResultsError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            record = json.loads(line)
            kind = record.pop("kind")
            if kind == "run":
                runs.append(_run(record))
            elif kind == "sample":
                samples.append(_sample(record))
            elif kind == "count":
                counts.append(Count(**record))
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break  # not ended by a newline: the writer was stopped in it
            raise ResultsError(f"{path}, line {number}: not a line of results ({error})") from None
    if not runs:
        raise ResultsError(f"{path} holds no run")
    return Results(runs, samples, counts)


def _run(record: dict[str, Any]) -> Run:
    if record["format"] != FORMAT:
        raise ValueError(f"format {record['format']}, this program reads {FORMAT}")
    allocators = tuple(AllocatorRecord(**each) for each in record.pop("allocators"))
    return Run(**{**record, "allocators": allocators, "workloads": tuple(record["workloads"])})


def _sample(record: dict[str, Any]) -> Sample:
    points = tuple((float(at), int(kib)) for at, kib in record.pop("rss", ()))
    return Sample(**record, rss=points)


class Writer:
    """Adds lines to a results file; each is on its way to the disk before the next is measured."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _end_last_line(path)
        self._file = path.open("a")

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, record: Run | Sample | Count) -> None:
        """Writes one line."""
        kind = type(record).__name__.lower()
        line: Mapping[str, Any] = {"kind": kind, **asdict(record)}
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._file.flush()


def _end_last_line(path: Path) -> None:
    """Drops a line that was cut short, so that the next one does not continue it."""
    if not path.exists():
        return
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(text.rfind(b"\n") + 1)
