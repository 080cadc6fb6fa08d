# SPDX-License-Identifier: MIT
#
# streamflow.py: the programs of Streamflow 2006 (Schneider, Antonopoulos and Nikolopoulos, ISMM) beside its micro
# benchmarks, which are in papers.py. Work is the paper's divided by --shrink: a sample takes about a second.
"""The programs of the Streamflow paper."""

from __future__ import annotations

from harness.workload import CPU_NS, PEAK_RSS, WALL_NS, Metric, Workload

_WALL = Metric(WALL_NS, "time")
# Of the same runs: it must not count twice in the mean of times.
_CPU = Metric(CPU_NS, "CPU time", timing=False)


def _threaded(program: str, shrink: int, what: str, *, quick: bool = False) -> Workload:
    return Workload(
        f"{program}-streamflow",
        (program, "--preset", "streamflow", "--threads", "{threads}", "--shrink", str(shrink)),
        (_WALL, _CPU, PEAK_RSS),
        ("papers", "quick") if quick else ("papers",),
        (program, "remote-frees"),  # few, but some
        what,
        "streamflow",
        "Fig. 3, Tables 1 and 2",
        threads=(1, 2, 8),
        scaling=tuple(range(1, 9)),
    )


WORKLOADS: tuple[Workload, ...] = (
    Workload(
        "parser-streamflow",
        ("parser_like", "--preset", "streamflow", "--shrink", "40"),
        (Metric(CPU_NS, "time of a sentence"), PEAK_RSS),
        ("papers", "quick"),
        ("parser",),
        "a link-grammar parser in one thread, after 197.parser: lists of very small blocks, made and freed like a "
        "stack; 20 million objects, a fortieth of the paper's",
        "streamflow",
        "Fig. 2, Tables 1 and 2",
    ),
    _threaded(
        "knary",
        1,
        "a tree of 61 million tasks of 40 bytes on a work-stealing scheduler, as in the paper",
    ),
    _threaded(
        "barnes",
        4,
        "an N-body simulation, 32,768 bodies, a quarter of the paper's; its octree is built and freed in each of 10 "
        "steps",
    ),
    _threaded(
        "mpcdm",
        5,
        "a Delaunay mesh of 2 million triangles, a fifth of the paper's, refined by threads that each own subdomains",
        quick=True,
    ),
)
