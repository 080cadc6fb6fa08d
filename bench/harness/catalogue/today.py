# SPDX-License-Identifier: MIT
#
# today.py: workloads of today's programs, with which arguments they run, and which figures are taken.
"""Workloads of today."""

from __future__ import annotations

from harness.workload import CPU_NS, PEAK_RSS, WALL_NS, Metric, Workload


def _simple(name: str, command: str, label: str, target: float | None = None, *groups: str) -> Workload:
    return Workload(name, tuple(command.split()), (Metric(CPU_NS, label, target=target),), ("today",), groups)


def _spill() -> list[Workload]:
    made = []
    for size in (16, 64, 256, 1024):
        for order in ("in", "reversed", "shuffled"):
            made.append(
                Workload(
                    f"spill-{size}-{order}",
                    ("spill", "--size", str(size), "--order", order),
                    (
                        Metric("alloc_ns", f"10^6 x {size} B allocated ({order})", target=1.0),
                        Metric("free_ns", f"10^6 x {size} B freed {order}", target=1.0),
                    ),
                    ("today",),
                    ("spill",),
                )
            )
    return made


WORKLOADS: tuple[Workload, ...] = (
    _simple("lifo", "lifo_pair", "malloc(32) + free", 1.0, "fast", "engines"),
    _simple("batch", "batch", "32 x malloc(32), 32 x free", 1.0, "fast"),
    Workload(
        "random-1",
        ("random_replace", "--threads", "1"),
        (Metric(CPU_NS, "random replacement, 1 thread", target=0.8), PEAK_RSS),
        ("today",),
        ("fast", "random", "engines"),
    ),
    _simple("random-2", "random_replace --threads 2", "random replacement, 2 threads", 0.8, "fast", "random"),
    *_spill(),
    _simple("prodcons", "producer_consumer", "producer to consumer, 64 B", None, "threads", "engines"),
    _simple("larson-2", "larson --threads 2", "larson, 2 threads", 0.8, "threads", "larson"),
    _simple("larson-64", "larson --threads 64", "larson, 64 threads", 0.6, "threads", "larson"),
    _simple("xmalloc-2", "xmalloc --threads 2", "xmalloc, 2 threads", 0.9, "threads", "xmalloc"),
    _simple("xmalloc-64", "xmalloc --threads 64", "xmalloc, 64 threads", 0.6, "threads", "xmalloc"),
    _simple("phases-2", "phases --threads 2", "phases of 3000 blocks, 2 threads", None, "threads", "phases"),
    _simple("phases-4", "phases --threads 4", "phases of 3000 blocks, 4 threads", None, "threads", "phases"),
    Workload(
        "few-threads",
        ("random_replace", "--threads", "2", "--slots", "100", "--steps", "96000000"),
        (Metric(WALL_NS, "100 slots a thread, 2 threads (wall)"), PEAK_RSS),
        ("today",),
        ("threads", "oversubscribed", "engines"),
    ),
    Workload(
        "many-threads",
        ("random_replace", "--threads", "256", "--slots", "100", "--steps", "96000000"),
        (Metric(WALL_NS, "100 slots a thread, 256 threads (wall)"), PEAK_RSS),
        ("today",),
        ("threads", "oversubscribed", "engines"),
    ),
    Workload(
        "short-threads",
        ("short_threads",),
        (Metric("us_each_thread", "short threads, 300 blocks each", "us"),),
        ("today",),
        ("threads",),
    ),
    Workload("large", ("large_blocks",), (Metric("us_each", "1-64 MiB blocks, every page touched", "us"),), ("today",)),
    Workload(
        "list",
        ("list_walk",),
        (
            Metric("build_ns", "list built after a random 90 % freed", target=0.9),
            Metric("walk_ns", "that list walked", target=0.5),
        ),
        ("today",),
        ("locality",),
    ),
    Workload(
        "scattered",
        ("scattered_free",),
        (Metric("free_ns", "scattered free, 48 B"), Metric("alloc_ns", "the next allocation")),
        ("today",),
        ("locality",),
    ),
    Workload(
        "rss",
        ("rss_after_free",),
        (
            Metric("rss_over_live", "RSS / live, random 90 % freed", "x", timing=False),
            Metric("rss_over_live_after_trim", "the same after malloc_trim", "x", timing=False),
            Metric("bound", "its bound: pages under live blocks", "x", timing=False),
            Metric("trim_over_bound", "after trim / bound", "x", timing=False),
            Metric("trim_ms", "the trim", "ms", timing=False),
            PEAK_RSS,
        ),
        ("today",),
        ("memory", "engines"),
    ),
    Workload(
        "fork",
        ("fork_copies",),
        (
            Metric("pages_copied", "pages copied, forked child frees 90 %", "pages", timing=False),
            Metric("free_ns", "each such free"),
        ),
        ("today",),
        ("memory",),
    ),
    Workload(
        "startup",
        ("startup",),
        (
            Metric("startup_us", "hello, world: spawn to exit", "us"),
            Metric("hello_anonymous_kib", "hello, world: anonymous RSS", "KiB", timing=False),
        ),
        ("today",),
        ("memory",),
    ),
)


def selected(words: list[str]) -> list[Workload]:
    """The workloads whose name, group or prefix is among `words`; all for none. ValueError for an unknown word."""
    if not words:
        return list(WORKLOADS)
    chosen = []
    for word in words:
        found = [w for w in WORKLOADS if word == w.name or word in w.groups]
        found = found or [w for w in WORKLOADS if w.name.startswith(word)]
        if not found:
            raise ValueError(f"no workload or group '{word}'")
        chosen += found
    return [w for w in WORKLOADS if w in chosen]
