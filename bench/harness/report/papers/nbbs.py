# SPDX-License-Identifier: MIT
"""Scarselli, A lock-free buddy system for scalable memory allocation (2017): Figs 4.1 to 4.6 and fairness."""

from __future__ import annotations

from harness.report.lineup import GLIBC
from harness.report.papers.table import NO_DENOMINATOR, At, Figure, Paper, PaperTable, Row
from harness.report.words import number

OURS = "nbbs"
CORES = (1, 2, 4, 12, 24)
CROWDS = (48, 128, 512)
TIME = "seconds"
PTMALLOC = (
    "execution time of the 1-level tree with the same number of threads (the paper draws times; a ratio carries over). "
    "glibc's malloc stands for ptmalloc3."
)


def _one_level(levels: int) -> str:
    return f"buddy-{levels}-tree1-nbbs"


def _over_one_level(levels: int, workload: str, allocator: str, threads: int) -> Figure:
    return Figure(At(workload, allocator, threads, TIME), At(_one_level(levels), OURS, threads, TIME))


def _rows(
    levels: int, threads: tuple[int, ...], printed: dict[int, str], locked: bool, malloc: bool
) -> tuple[Row, ...]:
    rows = []
    for count in threads:
        cells = (
            Figure(At(_one_level(levels), OURS, count, TIME), form=lambda s: f"{number(s)} s"),
            _over_one_level(levels, f"buddy-{levels}-tree4-nbbs", OURS, count),
            _over_one_level(levels, f"buddy-{levels}-tree1-locked-nbbs", OURS, count) if locked else NO_DENOMINATOR,
            _over_one_level(levels, f"buddy-{levels}-malloc-nbbs", GLIBC, count) if malloc else NO_DENOMINATOR,
        )
        rows.append(Row(f"{count} thread{'s' if count > 1 else ''}", (printed.get(count, "–"),), cells))
    return tuple(rows)


def _figure(
    item: str, title: str, levels: int, threads: tuple[int, ...], printed: dict[int, str], why: str,
    locked: bool = True, malloc: bool = True,
) -> PaperTable:  # fmt: skip
    return PaperTable(
        item,
        f"{title}; time over the 1-level tree's",
        ("the paper, in words",),
        ("1-level, time", "4-level", "1-level, spin lock", f"{GLIBC} (ptmalloc3)"),
        _rows(levels, threads, printed, locked, malloc),
        PTMALLOC,
        why,
    )


FEW_CORES = (
    "With fewer cores than threads the compare-and-swaps meet less often than on 24 cores, so neither the retries of "
    "the 4-level words nor the queue at the lock show as they did; a preempted holder of the lock does."
)
FIGURES = (
    _figure(
        "Fig. 4.1", "28 levels, 8 B to 16 KiB of 1 GiB", 28, CORES,
        {1: "ptmalloc3 < spin lock < 1-level < 4-level", 2: "spin lock not comparable beyond 2",
         4: "4-level best of trees", 12: "1-level before 4-level", 24: "4-level before 1-level"},
        FEW_CORES + " glibc has a thread cache for these sizes now, as ptmalloc3 had preallocated blocks.",
    ),
    _figure(
        "Fig. 4.2", "20 levels, 2 KiB to 4 MiB of 1 GiB", 20, CORES,
        {1: "spin lock first of the trees", 4: "4-level slightly before 1-level; ptmalloc3 very poor",
         12: "1-level = 4-level", 24: "1-level clearly before 4-level"},
        FEW_CORES
        + " Today's glibc raises its mmap threshold as blocks are freed, and so does not map each large block.",
    ),
    _figure(
        "Fig. 4.3", "16 levels, 128 B to 256 KiB of 4 MiB", 16, CORES,
        {1: "spin lock first of the trees", 4: "small speed-up; 1-level suffers", 24: "4-level suffers"},
        FEW_CORES + " The tree of 4 MiB is often full here, and a refused allocation searches all of it.",
    ),
    _figure(
        "Fig. 4.4", "28 levels in time sharing", 28, CROWDS,
        {48: "1-level < ptmalloc3 < 4-level", 128: "the same", 512: "still acceptable"},
        "The paper shared 24 cores; what is compared is whether the order and the times hold as threads are added.",
        locked=False,
    ),
    _figure(
        "Fig. 4.5", "20 levels in time sharing", 20, CROWDS,
        {48: "no winner", 512: "still acceptable"},
        "As Fig. 4.4: whether the times hold. The paper leaves ptmalloc3 and the lock out, as too slow.",
        locked=False, malloc=False,
    ),
    _figure(
        "Fig. 4.6", "16 levels in time sharing", 16, CROWDS,
        {48: "no winner", 512: "still acceptable"},
        "As Fig. 4.5: the order, and whether the times hold.", locked=False, malloc=False,
    ),
)  # fmt: skip


def _fairness(label: str, form: str, printed: str) -> Row:
    workload = f"buddy-28-{form}-nbbs"
    ends = tuple(Figure(At(workload, OURS, n, "first_over_last"), form=lambda x: f"{x:.0%}") for n in (2, 24))
    return Row(label, (printed,), (*ends, Figure(At(workload, OURS, 24, "finish_cv"), form=lambda x: f"{x:.0%}")))


FAIRNESS = PaperTable(
    "§4",
    "Fairness: when the first thread has ended, as a share of when the last has; variation of the threads' ends",
    ("the paper, in words",),
    ("first / last, 2 threads", "24 threads", "variation, 24 threads"),
    (
        _fairness("1-level, spin lock", "tree1-locked", "threads end at very different times"),
        _fairness("1-level", "tree1", "they end together"),
        _fairness("4-level", "tree4", "they end together"),
    ),
    "none: a share.",
    "On few cores the scheduler alone makes threads end apart: 24 threads cannot all run. Compare the lock's row "
    "with the others, not with 100 %.",
)

METADATA = PaperTable(
    "§3.1, §3.3",
    "Metadata, bytes for each managed byte",
    ("the paper's structures: 28 levels", "20 and 16 levels"),
    ("28 levels", "20 levels", "16 levels"),
    tuple(
        Row(
            f"{tree}-level",
            printed,
            tuple(Figure(At(f"buddy-{levels}-tree{tree}-nbbs", OURS, 1, "metadata_per_byte"), form=number)
                  for levels in (28, 20, 16)),
        )
        for tree, printed in ((1, ("8", "0.031 and 0.5")), (4, ("10.3", "0.040 and 0.64")))
    ),
    "none: bytes over bytes.",
    "The paper's nodes store start, size and position (32 bytes a node, 40 and a fifteenth of 16 in the 4-level "
    "form; figures computed from its declarations). Ours computes them.",
)  # fmt: skip

PAPER = Paper(
    OURS,
    "Andrea Scarselli: A lock-free buddy system for scalable memory allocation. Sapienza Università di Roma, 2017",
    "24 cores of 2.2 GHz on 4 NUMA nodes, 32 GB; Linux 2.6",
    (*FIGURES, FAIRNESS, METADATA),
)
