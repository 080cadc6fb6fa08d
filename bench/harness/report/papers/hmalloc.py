# SPDX-License-Identifier: MIT
"""HMalloc, an efficient multi-threaded memory allocator for PDES applications (2020): Figs 11 to 14, Table 2."""

from __future__ import annotations

from harness.report.lineup import FLAGSHIP, GLIBC
from harness.report.papers.table import (
    NO_DENOMINATOR,
    At,
    Figure,
    Paper,
    PaperTable,
    Row,
    Span,
    improvements,
    mib,
    percent_more,
)
from harness.workload import PEAK_RSS_KIB, WALL_NS

OURS = "hmalloc"  # as a malloc: every block is shared, the paper's HMalloc-shared
LOCAL = "hmalloc-local"  # the program says which blocks are local
THREADS = (1, 2, 4, 8, 16)
CONSUMERS = (1, 3, 7, 15)
PEERS = (
    "each allocator named. glibc is today's release instead of 2.12; SSMalloc and SFMalloc have no stand-in. What "
    "the paper calls HMalloc-shared is our engine as a malloc; HMalloc with local calls is the same engine, told by "
    "the program which of its blocks are local."
)


def _figure_11(item: str, workload: str, printed: str, threads: tuple[int, ...], local: bool) -> Row:
    """The better route over glibc and over the shared route, and the flagship over glibc."""
    route = LOCAL if local else OURS
    over_shared = improvements(workload, LOCAL, OURS, threads) if local else NO_DENOMINATOR
    ours = (
        improvements(workload, route, GLIBC, threads),
        over_shared,
        improvements(workload, FLAGSHIP, GLIBC, threads),
    )
    return Row(item, (*printed.split("/"),), ours)


FIGURE_11 = PaperTable(
    "Fig. 11",
    "How much longer the others take than HMalloc: lowest … highest over 1 to 16 threads (mean), clock time",
    ("over SSMalloc", "over SFMalloc", "over HMalloc-shared"),
    (f"{GLIBC}, over {OURS}", f"{OURS} (shared), over {LOCAL}", f"{GLIBC}, over {FLAGSHIP}"),
    (
        _figure_11("a threadtest", "threadtest-hmalloc", "~10 %/21 … 76 %/more than 15 %", THREADS, True),
        _figure_11("b linux-scalability", "linux-scalability-hmalloc",
                   "better below 6 threads, worse above/better/better", THREADS, True),
        _figure_11("c SHbench", "shbench-hmalloc", "30 %/100 %/better", THREADS, True),
        _figure_11("d largetest", "largetest-hmalloc", "~10 %/~50 %/~20 %", THREADS, True),
        _figure_11("e producer–consumer", "producer-consumer-hmalloc", "8 … 30 %/28 … 112 %/–", CONSUMERS, False),
        _figure_11("f larson", "larson-hmalloc", "best in most cases/best in most cases/–", THREADS, False),
        _figure_11("g active-false", "active-false-hmalloc", "nearly equal/nearly equal/nearly equal", THREADS, True),
        _figure_11("h passive-false", "passive-false-hmalloc", "better/better/better", THREADS, True),
    ),
    PEERS,
    "The paper's peers are gone, and glibc of 2010 had no thread cache. In our engine a block of 64 KB is a mapping of "
    "its own, so largetest measures system calls and page faults there.",
)  # fmt: skip

_SIMULATIONS = (
    ("Fig. 12", "PHOLD", "phold", (0, 10, 25, 50, 75, 100), "% remote", "~10 %", "~10 %", "~20 %"),
    ("Fig. 13", "PCS", "pcs", (20, 50, 100, 200), "events a cell", "more than 10 %", "more than 5 %", "more than 5 %"),
    (
        "Fig. 14",
        "Airport",
        "airport",
        (50, 100, 200, 500),
        "planes an airport",
        "~10 %",
        "more than 5 %",
        "more than 5 %",
    ),
)


def simulation(name: str, value: int, protocol: str = "conservative") -> str:
    """The workload of a simulation at one value of its variable."""
    return f"{name}-{value}-{protocol}-hmalloc"


def _over(name: str, values: tuple[int, ...], allocator: str, protocol: str) -> Span:
    cells = []
    for value in values:
        workload = simulation(name, value, protocol)
        cells.append(Figure(At(workload, GLIBC, key=WALL_NS), At(workload, allocator, key=WALL_NS), percent_more))
    return Span(tuple(cells))


SIMULATIONS = PaperTable(
    "Figs 12–14",
    "Discrete-event simulations: how much longer the others take than HMalloc, over the simulation's variable (clock "
    "time)",
    ("over glibc", "over SFMalloc", "over SSMalloc"),
    (f"{GLIBC}, over {OURS}", f"{GLIBC}, over {FLAGSHIP}", f"{GLIBC}, over {OURS} (Time Warp)"),
    tuple(
        Row(
            f"{item[5:]} {title}, {values[0]}–{values[-1]} {variable}",
            (glibc, sf, ss),
            (
                _over(name, values, OURS, "conservative"),
                _over(name, values, FLAGSHIP, "conservative"),
                _over(name, values, OURS, "optimistic"),
            ),
        )
        for item, title, name, values, variable, glibc, sf, ss in _SIMULATIONS
    ),
    PEERS,
    "Parameters other than the variable are not printed; ours are those of ROSS's models. A simulation spends most "
    "of its time outside malloc, and few cores have few remote events at once.",
)


def _independent() -> Row:
    lowest, highest = (At(simulation("phold", share), OURS) for share in (0, 100))
    glibc = tuple(At(simulation("phold", share), GLIBC) for share in (0, 100))
    return Row(
        "PHOLD: time with 100 % remote events over time with 0 %",
        ("not affected",),
        (Figure(highest, lowest), Figure(glibc[1], glibc[0])),
    )


REMOTE = PaperTable(
    "Fig. 12",
    "Whether the share of remote events matters",
    ("HMalloc",),
    (OURS, GLIBC),
    (_independent(),),
    "the allocator itself.",
    "The engine of the simulation has work of its own with a remote event (another thread's queue), under every "
    "allocator.",
)

_SPACE = (
    ("Linux-scalability", "linux-scalability-hmalloc", "1592.4/1460/3389.2/2929"),
    ("Threadtest", "threadtest-hmalloc", "317.9/114.1/1226.5/13.9"),
    ("SHbench", "shbench-hmalloc", "379.3/177.5/1226.5/13.0"),
    ("largetest", "largetest-hmalloc", "313.7/14.1/1423.1/7.6"),
    ("larson", "larson-hmalloc", "1080.6/602.7/1569.8/96.4"),
    ("producer–consumer", "producer-consumer-hmalloc", "188.6/15.7/233.2/3.2"),
    ("active-false", "active-false-hmalloc", "252.3/44.4/1140.5/5.3"),
    ("passive-false", "passive-false-hmalloc", "237.8/44.4/1216.2/5.4"),
)


def _space(label: str, workload: str, printed: str) -> Row:
    threads = 15 if workload.startswith("producer") else 16
    cells = []
    for name in (OURS, GLIBC):
        cells += [Figure(At(workload, name, threads, key), form=mib) for key in ("vm_peak_kib", PEAK_RSS_KIB)]
    return Row(
        label, tuple(printed.split("/")), (*cells, Figure(At(workload, FLAGSHIP, threads, PEAK_RSS_KIB), form=mib))
    )


TABLE_2 = PaperTable(
    "Table 2",
    "Maximum memory, MB, 16 threads: VmPeak (address space) and VmHWM (resident); ours in MiB",
    ("HMalloc VmPeak", "VmHWM", "glibc VmPeak", "VmHWM"),
    (f"{OURS} VmPeak", "VmHWM", f"{GLIBC} VmPeak", "VmHWM", f"{FLAGSHIP} VmHWM"),
    tuple(_space(*row) for row in _SPACE),
    "none: absolute figures. SSMalloc's and SFMalloc's rows are left out, there is nothing to set beside them.",
    "Our engines reserve 64 GiB of address space at the start, which is no memory: VmPeak says nothing of them. "
    "Resident memory follows the superblocks of 64 KiB and 4 MiB that each thread holds, in the paper and here.",
)

PAPER = Paper(
    OURS,
    "An efficient multi-threaded memory allocator for PDES applications. Simulation Modelling Practice and Theory, "
    "2020",
    "Xeon E5-2650 with 16 threads; CentOS 6.4, gcc 4.4.7",
    (FIGURE_11, SIMULATIONS, REMOTE, TABLE_2),
)
