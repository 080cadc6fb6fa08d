# SPDX-License-Identifier: MIT
"""Dice and Garthwaite, Mostly Lock-Free Malloc (2002): Fig. 1, Tables 2 and 3, footprint over threads."""

from __future__ import annotations

from harness.report.lineup import FLAGSHIP, GLIBC, LOCKED
from harness.report.papers.table import (
    NO_DENOMINATOR,
    At,
    Figure,
    Paper,
    PaperTable,
    Row,
    Span,
    mib,
    scaled_up,
    speed_up,
    times,
)
from harness.report.words import number
from harness.workload import WALL_NS

OURS = "lfmalloc"
HEAP = "heap_kib"
MUTEX_CPU, MUTEX_THREAD = "lfmalloc-mutex-cpu", "lfmalloc-mutex-thread"
THREADS = (*range(1, 17), 18, 20, 22, 24, 26, 28, 30, 32, 64, 128, 256)
LIBC = (
    "the paper divides by Solaris 8's libc, whose malloc is one mutex; the stand-in is `locked`. mtmalloc and Hoard "
    "2.1.0 have no stand-in."
)
SHOWN = (1, 2, 16, 64, 256)


def _figure_1(workload: str, label: str, printed: str) -> Row:
    ours = [speed_up(workload, OURS, LOCKED, threads, WALL_NS) for threads in SHOWN]
    return Row(label, (printed,), (*ours, speed_up(workload, FLAGSHIP, LOCKED, 256, WALL_NS)))


FIGURE_1 = PaperTable(
    "Fig. 1a–d",
    "Speed-up over libc at the same number of threads (clock time)",
    ("the paper, in words",),
    (*(f"{OURS}, {threads} thread{'s' if threads > 1 else ''}" for threads in SHOWN), f"{FLAGSHIP}, 256"),
    (
        _figure_1("larson-lfmalloc", "a larson", "LFMalloc fastest everywhere; without malloc in the loop 153 × at 24"),
        _figure_1("threadtest-lfmalloc", "b threadtest", "LFMalloc fastest everywhere"),
        _figure_1("linux-scalability-lfmalloc", "c linux-scalability", "LFMalloc fastest everywhere"),
        _figure_1("mmicro-lfmalloc", "d mmicro", "LFMalloc fastest everywhere"),
    ),
    LIBC,
    "The speed-up in the paper is the collapse of a contended mutex on sixteen processors. With few cores few "
    "threads ever contend at once, so the mutex collapses less, and the ratio is the ratio of the paths' lengths.",
)

WITHOUT_MALLOC = PaperTable(
    "§4.3",
    "larson with malloc and free taken out of its loop, 24 threads: how much faster it is than with libc's",
    ("without malloc",),
    (f"without malloc, over {LOCKED}", f"without malloc, over {OURS}"),
    (
        Row(
            "larson",
            ("153 ×",),
            tuple(
                Figure(At("larson-lfmalloc", name, 24), At("larson-no-malloc-lfmalloc", OURS, 24))
                for name in (LOCKED, OURS)
            ),
        ),
    ),
    LIBC,
    "It says how much of larson is malloc at all; 24 threads belong to the suite `scaling`.",
)

FIGURE_1E = PaperTable(
    "Fig. 1e",
    "mmicro: throughput over the same allocator's with one thread (clock time)",
    ("the paper, in words",),
    tuple(f"{name}, {threads} threads" for name in (OURS, FLAGSHIP, GLIBC) for threads in (2, 16, 256)),
    (
        Row(
            "mmicro",
            ("Hoard and LFMalloc near to ideal up to 16",),
            tuple(
                scaled_up("mmicro-lfmalloc", name, threads, name)
                for name in (OURS, FLAGSHIP, GLIBC)
                for threads in (2, 16, 256)
            ),
        ),
    ),
    "the allocator itself with one thread.",
    "Ideal is the number of threads up to the number of processors: sixteen there, fewer here.",
)

_MMICRO = "mmicro-64-lfmalloc"


def _row(label: str, printed: str, key: str, form: object) -> Row:
    cells = tuple(Figure(At(_MMICRO, name, None, key), form=form) for name in (LOCKED, GLIBC, OURS, FLAGSHIP))
    return Row(label, tuple(printed.split("/")), cells)


TABLE_2 = PaperTable(
    "Table 2",
    "mmicro 64 :10000 200: 64 threads, each allocating 64 blocks of 200 bytes and freeing them in the same order",
    ("libc", "mtmalloc", "Hoard", "LFMalloc"),
    (LOCKED, GLIBC, OURS, FLAGSHIP),
    (
        _row("pairs a second, thousands", "102/844/6589/70 749", WALL_NS, lambda ns: number(1e6 / ns)),
        Row(
            "the same over libc (computed)",
            ("1 ×", "8.3 ×", "64.5 ×", "693 ×"),
            tuple(Figure(At(_MMICRO, LOCKED), At(_MMICRO, n)) for n in (LOCKED, GLIBC, OURS, FLAGSHIP)),
        ),
        _row("ns a pair on one processor", "166 525/19 230/2 251/227", "processor_ns", number),
        _row("user CPU time, %", "14.1/85.6/98.6/98.7", "user_percent", number),
        _row("context switches a second", "1043/8537/657/412", "switches_per_second", number),
        _row("peak heap, MB (ours: MiB)", "?/?/3.5/4.1", HEAP, mib),
        Row("cycles an instruction", ("1.985", "3.106", "1.505", "0.909"), (NO_DENOMINATOR,) * 4),
        Row("L1 misses, %", ("2.544", "6.668", "7.325", "1.699"), (NO_DENOMINATOR,) * 4),
        Row("L1 misses a pair", ("139.087", "36.022", "10.333", "0.407"), (NO_DENOMINATOR,) * 4),
        Row("L2 misses, %", ("33.258", "24.139", "0.015", "0.008"), (NO_DENOMINATOR,) * 4),
        Row("snoops a second", ("3 529 464", "22 484 855", "137 625", "41 452"), (NO_DENOMINATOR,) * 4),
        Row("snoops a pair", ("33.382", "26.112", "0.021037", "0.000583"), (NO_DENOMINATOR,) * 4),
        Row("DTLB exceptions a second", ("4 965", "“20,8114” (sic)", "4 870", "10 028"), (NO_DENOMINATOR,) * 4),
        Row(
            "migration / preemption upcalls / interrupted sections",
            ("", "", "", "473 / 2705 / 812"),
            (NO_DENOMINATOR,) * 4,
        ),
    ),
    LIBC + " Cache and snoop counters are read only where the machine offers them; a dash says it does not.",
    "64 threads on sixteen processors of 400 MHz there. The ratio of the rows carries over, as far as threads "
    "contend: on few cores a mutex is contended only when its holder is preempted.",
)


def _table_3(label: str, allocator: str, one: str, sixteen: str, many: str, crowd: str) -> Row:
    at = {threads: At("mmicro-lfmalloc", allocator, threads) for threads in (1, 16, 256)}
    pairs = tuple(Figure(at[threads], form=lambda ns: number(1e6 / ns)) for threads in at)
    return Row(label, (one, sixteen, many, crowd), (*pairs, Figure(at[16], at[256], times)))


TABLE_3 = PaperTable(
    "Table 3",
    "mmicro T :10000 64: pairs a millisecond, by what keeps the threads of a heap apart and how a heap is chosen",
    ("1 thread", "16", "256", "256 over 16"),
    ("1 thread", "16", "256", "256 over 16"),
    (
        _table_3("restartable sections, processor's heap", OURS, "4548", "69 911", "72 163", "1.03 ×"),
        _table_3("mutex, processor's heap", MUTEX_CPU, "2124", "33 020", "30 678", "0.93 ×"),
        _table_3("mutex, heap by hash of the thread", MUTEX_THREAD, "2012", "23 742", "2 060", "0.09 ×"),
        _table_3(f"({FLAGSHIP})", FLAGSHIP, "", "", "", ""),
    ),
    "none; the last column is the ratio that does not depend on the machine.",
    "rseq restarts at each preemption, the paper's upcall only when a related thread ran. The collapse of hashed "
    "heaps needs threads that are preempted while they hold a mutex which others want at that moment; with a futex "
    "and few cores it may be milder.",
)

FOOTPRINT = PaperTable(
    "§4.3",
    "threadtest's peak heap over 1 to 256 threads, MB (ours: growth of the heap, MiB)",
    ("Hoard", "LFMalloc"),
    (OURS, FLAGSHIP, GLIBC),
    (
        Row(
            "lowest … highest",
            ("6.591 … 7.430", "4.980 … 5.898"),
            tuple(
                Span(tuple(Figure(At("threadtest-lfmalloc", name, n, HEAP), form=mib) for n in THREADS))
                for name in (OURS, FLAGSHIP, GLIBC)
            ),
        ),
        Row(
            "256 threads over 1",
            ("", "at most 1.18 ×"),
            tuple(
                Figure(At("threadtest-lfmalloc", name, 256, HEAP), At("threadtest-lfmalloc", name, 1, HEAP))
                for name in (OURS, FLAGSHIP, GLIBC)
            ),
        ),
    ),
    "none: absolute figures and the allocator itself.",
    "The paper counts what the allocator holds, ours what became resident while the blocks were allocated: compare "
    "how little it grows.",
)

PAPER = Paper(
    OURS,
    "Dave Dice, Alex Garthwaite: Mostly Lock-Free Malloc. ISMM 2002",
    "Sun E6500, 16 UltraSPARC-II of 400 MHz; Solaris 8",
    (FIGURE_1, WITHOUT_MALLOC, FIGURE_1E, TABLE_2, TABLE_3, FOOTPRINT),
)
