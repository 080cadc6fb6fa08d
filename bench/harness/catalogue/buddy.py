# SPDX-License-Identifier: MIT
#
# buddy.py: the experiments of Scarselli 2017, Figs 4.1 to 4.6. The buddies' series run with libfreeway-nbbs.so
# preloaded, which brings the interface freeway/buddy.h; that of an ordinary malloc, the paper's ptmalloc3, runs under
# several.
"""The buddy system's own workloads."""

from __future__ import annotations

from harness.workload import PEAK_RSS, Metric, Workload

CORES = (1, 2, 4, 8, 12, 16, 20, 24)
TIME_SHARING = (48, 96, 128, 256, 512)
SCALING = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
FEW = (1, 2, 24)  # for series that are not the paper's
# Levels of the tree, sizes, and the figures: threads up to the number of cores, and time sharing.
CONFIGURATIONS = {
    28: ("8 B to 16 KiB of 1 GiB", "Figs. 4.1, 4.4"),
    20: ("2 KiB to 4 MiB of 1 GiB", "Figs. 4.2, 4.5"),
    16: ("128 B to 256 KiB of 4 MiB", "Figs. 4.3, 4.6"),
}
# glibc's malloc descends from the paper's ptmalloc3; one mutex; ours; the best known of today.
MALLOCS = ("glibc", "locked", "freeway", "nbbs", "mimalloc3", "jemalloc", "snmalloc")

FAIRNESS = (
    Metric("first_over_last", "first thread's end / last's", "x", timing=False, higher_is_better=True),
    Metric("finish_cv", "spread of the threads' ends (variation)", "", timing=False),
)
METADATA = Metric("metadata_per_byte", "metadata per managed byte", "B", timing=False)
REFUSED = Metric("refused", "allocations refused", "", timing=False)


def _metrics(label: str, *more: Metric) -> tuple[Metric, ...]:
    return (Metric("seconds", f"10^7 operations, {label}", "s"), *FAIRNESS, *more, PEAK_RSS)


def _item(figures: str, threads: tuple[int, ...]) -> str:
    """Both figures, or that without time sharing only."""
    return figures if max(threads) > max(CORES) else figures.split(",")[0].replace("Figs.", "Fig.")


def _buddy(levels: int, tree: int, form: str, threads: tuple[int, ...], *, paper: bool = True) -> Workload:
    sizes, figures = CONFIGURATIONS[levels]
    suffix = "" if form == "corrected" else f"-{form}"
    arguments = ("--levels", str(levels), "--tree", str(tree), "--form", form, "--threads", "{threads}")
    ours = "" if paper else "; a series that the paper does not have"
    return Workload(
        f"buddy-{levels}-tree{tree}{suffix}-nbbs",
        ("buddy_operations", *arguments),
        _metrics(f"{levels} levels, {tree} in a word{suffix.replace('-', ', ')}", METADATA, REFUSED),
        ("papers", "scaling") if paper and form == "corrected" else ("papers",),
        ("buddy",),
        what=f"allocate or free with probability 1/2, {sizes}, threads sharing one tree{ours}",
        paper="nbbs",
        item=_item(figures, threads),
        threads=threads,
        scaling=SCALING if paper and form == "corrected" else (),
        allocators=("nbbs",),
    )


def _over_malloc(levels: int) -> Workload:
    sizes, figures = CONFIGURATIONS[levels]
    # The paper leaves ptmalloc3 out of time sharing with 20 and 16 levels.
    threads = CORES + TIME_SHARING if levels == 28 else CORES
    return Workload(
        f"buddy-{levels}-malloc-nbbs",
        ("buddy_operations", "--over", "malloc", "--levels", str(levels), "--threads", "{threads}"),
        _metrics(f"{levels} levels' sizes, malloc"),
        ("papers",),
        ("buddy",),
        what=f"the same operations on malloc: {sizes.split(' of ')[0]}; the paper's ptmalloc3",
        paper="nbbs",
        item=_item(figures, threads),
        threads=threads,
        allocators=MALLOCS,
    )


def _of(levels: int) -> list[Workload]:
    everything = CORES + TIME_SHARING
    return [
        _buddy(levels, 1, "corrected", everything),
        _buddy(levels, 4, "corrected", everything),
        # The paper has the lock for one level only, and leaves it out of time sharing.
        _buddy(levels, 1, "locked", CORES),
        _buddy(levels, 3, "corrected", FEW, paper=False),
        _buddy(levels, 4, "locked", FEW, paper=False),
        _buddy(levels, 4, "up", FEW, paper=False),
        # As printed: they can hand out a block twice, which the program counts.
        _buddy(levels, 1, "published", FEW, paper=False),
        _buddy(levels, 4, "published", FEW, paper=False),
        _over_malloc(levels),
    ]


def _processes() -> Workload:
    return Workload(
        "buddy-20-processes-nbbs",
        ("buddy_operations", "--levels", "20", "--tree", "4", "--processes", "{threads}"),
        _metrics("20 levels, processes", METADATA, REFUSED),
        ("papers",),
        ("buddy",),
        what="as buddy-20-tree4, but processes that share one tree over MAP_SHARED instead of threads",
        paper="nbbs",
        item="§2 (shared by processes)",
        threads=(1, 2, 8, 24),
        allocators=("nbbs",),
    )


WORKLOADS: tuple[Workload, ...] = (*(w for levels in CONFIGURATIONS for w in _of(levels)), _processes())
