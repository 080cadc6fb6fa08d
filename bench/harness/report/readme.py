# SPDX-License-Identifier: MIT
#
# readme.py: the table "What it costs" of the README: the flagship relative to glibc and to the best of the peers.
"""The README's table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.report.lineup import FLAGSHIP, GLIBC, peers
from harness.report.measured import Measured
from harness.report.summary import BEST_PEER, Mean, mean, shared_cases
from harness.report.words import ratio
from harness.results import Case
from harness.statistics import Ratio
from harness.workload import CPU_NS, WALL_NS, Metric

Place = tuple[str, str]  # workload and the metric's key

ROWS: tuple[tuple[str, tuple[Place, ...]], ...] = (
    ("malloc(32) and free, one pair / batches of 32", (("lifo", CPU_NS), ("batch", CPU_NS))),
    ("random sizes 16–1024 B in 10,000 slots, 1 / 2 threads", (("random-1", CPU_NS), ("random-2", CPU_NS))),
    (
        "10⁶ blocks of 64 B allocated / freed in order / freed shuffled",
        (("spill-64-in", "alloc_ns"), ("spill-64-in", "free_ns"), ("spill-64-shuffled", "free_ns")),
    ),
    (
        "10⁶ blocks of 16 B, the same",
        (("spill-16-in", "alloc_ns"), ("spill-16-in", "free_ns"), ("spill-16-shuffled", "free_ns")),
    ),
    ("producer → consumer, 64 B", (("prodcons", CPU_NS),)),
    ("larson, 2 / 64 threads", (("larson-2", CPU_NS), ("larson-64", CPU_NS))),
    ("256 threads on few CPUs, time", (("many-threads", WALL_NS),)),
    ("blocks of 1–64 MiB over and over", (("large", "us_each"),)),
    ("memory after freeing a random 90 % and malloc_trim", (("rss", "rss_over_live_after_trim"),)),
)
PROGRAMS = "redis, Python, g++, git, node, java, …"


def table(measured: Measured) -> str:
    """The table and the line above it, in Markdown. Rows without a figure are left out."""
    lines = [_introduction(measured), "", "| | to glibc | to the best peer |", "|---|---|---|"]
    for label, places in ROWS:
        found = [(_ratio(measured, place, _glibc), _ratio(measured, place, measured.best_peer)) for place in places]
        if any(glibc or best for glibc, best in found):
            lines.append(f"| {label} | {_joined(g for g, _ in found)} | {_joined(b for _, b in found)} |")
    programs = [case for case in measured.cases if case.workload in _programs(measured)]
    if programs:
        pairs = [
            [mean(measured, programs, FLAGSHIP, other, rss) for rss in (False, True)] for other in (GLIBC, BEST_PEER)
        ]
        to_glibc, to_best = (" / ".join(_of(found) for found in pair) for pair in pairs)
        count = len({case.workload for case in programs})
        lines.append(f"| {count} real programs ({PROGRAMS}), time / peak memory | {to_glibc} | {to_best} |")
    cases = shared_cases(measured)
    for label, rss in (("time", False), ("peak RSS", True)):
        to_glibc, to_best = (mean(measured, cases, FLAGSHIP, other, rss) for other in (GLIBC, BEST_PEER))
        if to_best.ratio:
            lines.append(
                f"| all {to_best.workloads} workloads, {label} (geometric mean) | {_of(to_glibc)} | {_of(to_best)} |"
            )
    return "\n".join(lines) + "\n"


def _programs(measured: Measured) -> set[str]:
    """Of the suite of real programs: each is compared with the best of those that it was run with."""
    return {name for run in measured.results.runs if run.suite == "real" for name in run.workloads}


def _introduction(measured: Measured) -> str:
    runs = measured.results.runs
    if not runs:
        return "Nothing was measured."
    machine, run = runs[-1].machine, runs[-1]
    records = measured.results.allocators
    names = [n for n in peers(measured.allocators) if n != GLIBC and n in records and not records[n].failed]
    return (
        f"CPU time and memory relative to glibc's malloc and to the best of {', '.join(names) or 'no other'} in "
        f"each row ({machine.get('cpus')} CPUs, Linux {machine.get('kernel')}; medians of {run.repeats} interleaved "
        f"runs, `make bench` makes yours; below 1 is for Freeway):"
    )


def _glibc(_metric: Metric, _case: Case) -> str:
    return GLIBC


def _ratio(measured: Measured, place: Place, reference: Callable[[Metric, Case], str | None]) -> Ratio | None:
    name, key = place
    cases = measured.cases_of(name)
    metric = next((m for m in measured.workload(name).metrics if m.key == key), Metric(key, key))
    other = reference(metric, cases[0]) if cases else None
    return measured.ratio(metric, cases[0], FLAGSHIP, other) if other else None


def _joined(ratios: Iterable[Ratio | None]) -> str:
    return " / ".join(ratio(found.median) if found else "–" for found in ratios)


def _of(found: Mean) -> str:
    return ratio(found.ratio.median) if found.ratio else "–"
