# SPDX-License-Identifier: MIT
"""Michael, Scalable Lock-Free Dynamic Memory Allocation (PLDI 2004): sections 4.2.1 to 4.2.5."""

from __future__ import annotations

from harness.report.lineup import FLAGSHIP, GLIBC, LOCKED
from harness.report.papers.table import (
    NO_DENOMINATOR,
    At,
    Counted,
    Figure,
    Paper,
    PaperTable,
    Row,
    scaled_up,
    speed_up,
)
from harness.report.words import number
from harness.workload import CPU_NS

OURS = "michael"
ONE_HEAP = "michael-one-heap"
HEAP = "heap_kib"  # growth of the heap: what the program itself needs is not in it
LIBC = (
    "the paper divides by AIX 5.1's libc, whose malloc is one mutex; the stand-in is `locked`, one mutex around a "
    "simple allocator. Ptmalloc became glibc's malloc, which stands in its column; Hoard 3.0.2 has no stand-in."
)


def _latency(workload: str, label: str, power3: str, power4: str) -> Row:
    engines = tuple(speed_up(workload, name, LOCKED, 1) for name in (OURS, GLIBC, FLAGSHIP))
    return Row(label, (*power3.split("/"), *power4.split("/")), engines)


TABLE_1 = PaperTable(
    "Table 1",
    "Speed-up over libc without contention, one thread, CPU time (an idle thread was started and ended before)",
    ("POWER3: new", "Hoard", "Ptmalloc", "POWER4: new", "Hoard", "Ptmalloc"),
    (OURS, GLIBC, FLAGSHIP),
    (
        _latency("linux-scalability-michael", "Linux scalability", "2.25/1.11/1.83", "2.75/1.38/1.92"),
        _latency("threadtest-michael", "Threadtest", "2.18/1.20/1.94", "2.35/1.23/1.97"),
        _latency("larson-michael", "Larson", "2.90/2.22/2.53", "2.95/2.37/2.67"),
    ),
    LIBC,
    "An uncontended mutex is two atomic instructions today; on POWER each acquisition and release had fences as "
    "well. The engine has three compare-and-swaps a pair, so a lead over one mutex like that of 2004 is not to be "
    "expected; glibc has since got a thread cache that needs no atomic instruction.",
)


def _scalability(threads: int, libc: str, new: str) -> Row:
    name = "linux-scalability-michael"
    ours = (
        scaled_up(name, LOCKED, threads, LOCKED),
        scaled_up(name, OURS, threads, LOCKED),
        scaled_up(name, FLAGSHIP, threads, LOCKED),
        Figure(At(name, LOCKED, threads), At(name, OURS, threads)),
    )
    return Row(f"{threads} threads", (libc, new), ours)


FIGURE_8A = PaperTable(
    "Fig. 8a",
    "Linux scalability: throughput, libc with one thread being 1 (clock time)",
    ("libc", "new, over libc at this number"),
    (f"{LOCKED}", OURS, FLAGSHIP, f"{OURS}, over {LOCKED} at this number"),
    (
        _scalability(2, "0.4 ×", "–"),
        _scalability(4, "–", "–"),
        _scalability(8, "–", "–"),
        _scalability(16, "–", "331 ×"),
    ),
    LIBC,
    "Sixteen processors fought for libc's mutex. On a few cores more threads share what cores there are, so "
    "throughput stops rising at the number of cores; and a thread that waits for a mutex sleeps (futex) and leaves "
    "its core to the others.",
)


def _figure_8(workload: str, label: str, printed: str) -> Row:
    ours = []
    for threads in (2, 16):
        ours += [scaled_up(workload, name, threads, LOCKED) for name in (OURS, GLIBC, FLAGSHIP)]
    return Row(label, (printed,), tuple(ours))


FIGURE_8 = PaperTable(
    "Fig. 8b–h",
    "The other scaling curves: throughput, libc with one thread being 1 (clock time)",
    ("the paper, in words",),
    tuple(f"{name}, {threads} threads" for threads in (2, 16) for name in (OURS, GLIBC, FLAGSHIP)),
    (
        _figure_8("threadtest-michael", "b Threadtest", "new and Hoard scale; Ptmalloc less"),
        _figure_8("active-false-michael", "c Active-false", "new and Hoard avoid false sharing"),
        _figure_8("passive-false-michael", "d Passive-false", "new and Hoard avoid false sharing"),
        _figure_8("larson-michael", "e Larson", "new and Hoard scale; Ptmalloc does not (22 arenas for 16 threads)"),
        _figure_8("producer-consumer-500-michael", "f Producer–consumer, work 500", "scales to 13 processors"),
        _figure_8("producer-consumer-750-michael", "g work 750", "scales perfectly"),
        _figure_8("producer-consumer-1000-michael", "h work 1000", "scales perfectly"),
    ),
    LIBC,
    "The paper's curves have no printed values. Where the machine has fewer cores than there are threads, a curve "
    "ends at the number of cores; what remains to see is that it does not fall afterwards.",
)

ONE_HEAP_GAIN = PaperTable(
    "§4.2.4",
    "One heap for all threads instead of one a processor: gain on Linux scalability, one thread",
    ("one heap / processor heaps",),
    (f"{ONE_HEAP} / {OURS}",),
    (Row("Linux scalability", ("1.15 ×",), (speed_up("linux-scalability-michael", ONE_HEAP, OURS, 1),)),),
    "none: the engine is compared with itself.",
    "The gain is the price of finding one's heap: a system call's worth of work then, a thread-local variable now.",
)

SPACE = PaperTable(
    "§4.2.5",
    "Maximum space, 16 threads: Ptmalloc's over the new allocator's",
    ("Ptmalloc / new",),
    (f"{GLIBC} / {OURS}", f"{GLIBC} / {FLAGSHIP}"),
    tuple(
        Row(
            label,
            (printed,),
            tuple(speed_up(workload, name, GLIBC, 16, HEAP) for name in (OURS, FLAGSHIP)),
        )
        for workload, label, printed in (
            ("threadtest-michael", "Threadtest", "1.16 ×"),
            ("larson-michael", "Larson", "3.83 ×"),
            ("producer-consumer-750-michael", "Producer–consumer", "between"),
        )
    ),
    "glibc's malloc in the place of Ptmalloc, its ancestor.",
    "Arenas of ptmalloc grew in number with contention, and a few cores contend less than sixteen; glibc limits them "
    "now.",
)

LATENCY = PaperTable(
    "§4.2.1",
    "A pair of malloc and free beside a minimal lock, without contention",
    ("POWER4",),
    (OURS, FLAGSHIP),
    (
        Row(
            "malloc and free, ns",
            ("282",),
            tuple(Figure(At("linux-scalability-michael", n, 1, CPU_NS), form=number) for n in (OURS, FLAGSHIP)),
        ),
        Row("lock and unlock, ns", ("165",), (NO_DENOMINATOR, NO_DENOMINATOR)),
        Row(
            "locked instructions a pair",
            ("3",),
            tuple(Counted("local_pair", n, "locked_rmw") for n in (OURS, FLAGSHIP)),
        ),
    ),
    "none: absolute figures.",
    "Twenty years of processors: the same instructions take a tenth of the time. The number of atomic instructions "
    "is the design's and does not age.",
)

PAPER = Paper(
    OURS,
    "Maged M. Michael: Scalable Lock-Free Dynamic Memory Allocation. PLDI 2004",
    "16 POWER3-II of 375 MHz, and 8 POWER4+ of 1.2 GHz; AIX 5.1",
    (TABLE_1, FIGURE_8A, FIGURE_8, LATENCY, ONE_HEAP_GAIN, SPACE),
)
