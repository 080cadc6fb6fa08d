# SPDX-License-Identifier: MIT
#
# today.py: workloads of today's programs, with which arguments they run, and which figures are taken. Those in the
# suite `quick` take some six seconds together under a fast allocator.
"""Workloads of today."""

from __future__ import annotations

from harness.workload import CPU_NS, PEAK_RSS, WALL_NS, Metric, Workload

TODAY = ("today",)
QUICK = ("today", "quick")
SCALING = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def _simple(
    name: str,
    command: str,
    label: str,
    what: str,
    *groups: str,
    target: float | None = None,
    suites: tuple[str, ...] = TODAY,
) -> Workload:
    """One whose figure is CPU time for each operation."""
    return Workload(name, tuple(command.split()), (Metric(CPU_NS, label, target=target),), suites, groups, what)


def _memory(key: str, label: str, unit: str = "x") -> Metric:
    return Metric(key, label, unit, timing=False)


def _fast_path() -> list[Workload]:
    return [
        _simple("lifo", "lifo_pair", "malloc(32) + free", "one block at a time: the shortest way through an allocator",
                "fast", "engines", target=1.0, suites=QUICK),
        _simple("batch", "batch", "32 x malloc(32), 32 x free", "a few blocks at a time: what every cache should hold",
                "fast", target=1.0, suites=QUICK),
    ]  # fmt: skip


def _random() -> list[Workload]:
    what = "each step frees a random block and allocates another: the steady state of a long-running program"
    made = [
        Workload(
            "random-1",
            ("random_replace", "--threads", "1"),
            (Metric(CPU_NS, "random replacement, 1 thread", target=0.8), PEAK_RSS),
            TODAY,
            ("fast", "random", "engines"),
            what,
        ),
        _simple("random-2", "random_replace --threads 2", "random replacement, 2 threads", what, "fast", "random",
                target=0.8, suites=QUICK),
    ]  # fmt: skip
    for program in ("python3", "g++", "redis", "git", "sqlite"):
        made.append(
            Workload(
                f"random-{program}",
                ("random_replace", "--sizes", program, "--steps", "20000000"),
                (Metric(CPU_NS, f"random replacement, sizes of {program}"), PEAK_RSS),
                TODAY,
                ("random", "sizes"),
                f"random replacement with the sizes that {program} asks for, as counted",
            )
        )
    return made


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
                    QUICK if order == "shuffled" and size <= 64 else TODAY,
                    ("spill",),
                    "a million blocks of one size, then all freed: the way between cache and shared heap",
                )
            )
    return made


def _phases() -> list[Workload]:
    what = "thousands of small blocks, then all freed, over and over: magazines that overflow all the time"
    made = [
        _simple("phases-2", "phases --threads 2", "phases of 3000 blocks, 2 threads", what, "threads", "phases",
                suites=QUICK),
        _simple("phases-4", "phases --threads 4", "phases of 3000 blocks, 4 threads", what, "threads", "phases"),
    ]  # fmt: skip
    for exponent, blocks in ((4, 10_000), (5, 100_000), (6, 1_000_000)):
        for order in ("in", "reversed", "shuffled"):
            arguments = f"--threads 1 --blocks {blocks} --phases {4_000_000 // blocks} --max 512 --order {order}"
            made.append(
                Workload(
                    f"phases-1e{exponent}-{order}",
                    ("phases", *arguments.split()),
                    (Metric(CPU_NS, f"10^{exponent} x 16-512 B, freed {order}"), PEAK_RSS),
                    TODAY,
                    ("phases",),
                    f"phases of 10^{exponent} blocks of mixed sizes, freed {order}",
                )
            )
    return made


def _rings_and_rounds() -> list[Workload]:
    rings = "rings of small blocks, half freed upwards, half downwards, a fifth kept: runs of neighbours with holes"
    rounds = "1000 blocks a thread, 100 replaced a round, of up to 16,000 bytes: few blocks each of many classes"
    return [
        _simple("rings-4", "rings", "rings of 8-48 B, 4 threads", rings, "threads", "phases"),
        _simple("rounds-1", "rounds", "100 of 1000 x 8-16000 B a round, 1 thread", rounds, "random"),
        _simple("rounds-4", "rounds --threads 4", "100 of 1000 x 8-16000 B a round, 4 threads", rounds, "random",
                "threads"),
    ]  # fmt: skip


def _threads() -> list[Workload]:
    larson = "a server under load: blocks outlive the threads that made them"
    xmalloc = "batches of blocks change hands: every free is another thread's"
    oversubscribed = "the same work by 2 threads and by 256: what oversubscription costs"
    made = [
        _simple("prodcons", "producer_consumer", "producer to consumer, 64 B", "one thread allocates, another frees",
                "threads", "engines", suites=QUICK),
        _simple("larson-2", "larson --threads 2", "larson, 2 threads", larson, "threads", "larson", target=0.8,
                suites=QUICK),
        _simple("larson-64", "larson --threads 64", "larson, 64 threads", larson, "threads", "larson", target=0.6),
        _simple("xmalloc-2", "xmalloc --threads 2", "xmalloc, 2 threads", xmalloc, "threads", "xmalloc", target=0.9),
        _simple("xmalloc-64", "xmalloc --threads 64", "xmalloc, 64 threads", xmalloc, "threads", "xmalloc", target=0.6,
                suites=QUICK),
    ]  # fmt: skip
    for name, threads in (("few-threads", 2), ("many-threads", 256)):
        made.append(
            Workload(
                name,
                ("random_replace", "--threads", str(threads), "--slots", "100", "--steps", "96000000"),
                (Metric(WALL_NS, f"100 slots a thread, {threads} threads (wall)"), PEAK_RSS),
                TODAY,
                ("threads", "oversubscribed", "engines"),
                oversubscribed,
            )
        )
    made.append(
        Workload(
            "short-threads",
            ("short_threads",),
            (Metric("us_each_thread", "10,000 short threads, 300 blocks each", "us"), PEAK_RSS),
            TODAY,
            ("threads",),
            "ten thousand threads, two at a time: what a start and an end cost, and whether memory grows",
        )
    )
    return made


def _server() -> list[Workload]:
    what = "requests of a web application: buffers, headers, rows, a response; sessions that live long"
    made = []
    for threads in (1, 2, 64):
        made.append(
            Workload(
                f"server-{threads}",
                ("server", "--threads", str(threads)),
                (Metric(CPU_NS, f"a request, {threads} thread{'s' if threads > 1 else ''}"), PEAK_RSS),
                QUICK if threads == 2 else TODAY,
                ("server", "threads"),
                what,
            )
        )
    return made


def _cache() -> list[Workload]:
    what = "a cache under a memory limit, Zipf keys, sizes that change from epoch to epoch: does it fragment?"
    growth = (
        _memory("rss_over_live", "cache: RSS / live, at the end"),
        _memory("rss_over_live_max", "cache: RSS / live, at worst"),
        PEAK_RSS,
    )
    epochs = tuple(_memory(f"rss_over_live_{i}", f"cache: RSS / live after epoch {i}") for i in range(1, 9))
    small = "--limit 16 --keys 250000 --requests 150000"
    return [
        Workload("kv-cache", ("kv_cache",), (Metric(CPU_NS, "a request to a cache of 64 MiB"), *growth, *epochs),
                 TODAY, ("memory", "cache"), what),
        Workload("kv-cache-2", ("kv_cache", "--threads", "2"),
                 (Metric(CPU_NS, "a request to a cache of 64 MiB, 2 threads"), *growth), TODAY,
                 ("memory", "cache", "threads"), what),
        Workload("kv-cache-small", ("kv_cache", *small.split()),
                 (Metric(CPU_NS, "a request to a cache of 16 MiB"), *growth), QUICK, ("memory", "cache"), what),
    ]  # fmt: skip


def _growing_and_aligned() -> list[Workload]:
    labels = {"half": "grown by half", "double": "grown to twice the size", "append": "grown by 1-16 bytes"}
    made = [
        Workload(
            f"realloc-{growth}",
            ("realloc_growth", "--growth", growth),
            (
                Metric(CPU_NS, f"realloc, {label}"),
                Metric("in_place_percent", "of them in place", "%", timing=False, higher_is_better=True),
                PEAK_RSS,
            ),
            TODAY,
            ("realloc",),
            "hundreds of vectors or strings that grow in turns",
        )
        for growth, label in labels.items()
    ]
    made.append(
        Workload(
            "aligned",
            ("aligned_mix",),
            (
                Metric(CPU_NS, "aligned to 16-4096, random replacement"),
                Metric("misaligned", "blocks not aligned as asked", "", timing=False),
                PEAK_RSS,
            ),
            TODAY,
            ("aligned",),
            "posix_memalign, aligned_alloc and memalign; what an alignment costs in time and memory",
        )
    )
    return made


def _large() -> list[Workload]:
    us = "us_each"
    what = "over and over, a few alive at a time: an allocator that gives them back at once pays a fault for each page"
    middle = "--min 64 --max 1024 --steps 20000"
    return [
        Workload("large", ("large_blocks",), (Metric(us, "1-64 MiB blocks, every page touched", "us"), PEAK_RSS), QUICK,
                 ("large",), what),
        Workload("large-64k", ("large_blocks", *middle.split()),
                 (Metric(us, "64 KiB-1 MiB blocks, every page touched", "us"), PEAK_RSS), TODAY, ("large",), what),
    ]  # fmt: skip


def _locality() -> list[Workload]:
    return [
        Workload(
            "list",
            ("list_walk",),
            (
                Metric("build_ns", "list built after a random 90 % freed", target=0.9),
                Metric("walk_ns", "that list walked", target=0.5),
            ),
            QUICK,
            ("locality",),
            "a list built in the holes of a heap: are they reused in the order of addresses?",
        ),
        Workload(
            "scattered",
            ("scattered_free",),
            (Metric("free_ns", "scattered free, 48 B"), Metric("alloc_ns", "the next allocation")),
            TODAY,
            ("locality",),
            "a random tenth of a million blocks is freed and allocated again",
        ),
    ]


def _resident() -> list[Workload]:
    return [
        Workload(
            "rss",
            ("rss_after_free",),
            (
                _memory("rss_over_live", "RSS / live, random 90 % freed"),
                _memory("rss_over_live_after_trim", "the same after malloc_trim"),
                _memory("bound", "its bound: pages under live blocks"),
                _memory("trim_over_bound", "after trim / bound"),
                _memory("trim_ms", "the trim", "ms"),
                PEAK_RSS,
            ),
            QUICK,
            ("memory", "engines"),
            "what stays resident when a random 90 % is freed, and what malloc_trim gives back",
        ),
        Workload(
            "burst-idle",
            ("burst_idle",),
            (
                Metric(CPU_NS, "a block of a burst"),
                _memory("idle_rss_kib", "resident while idle", "KiB"),
                _memory("rss_over_live", "the same / live"),
                _memory("idle_cpu_ms", "CPU time while idle", "ms"),
                PEAK_RSS,
            ),
            TODAY,
            ("memory",),
            "bursts of 140 MiB, then sleep: what is kept, and what CPU time that takes",
        ),
    ]


def _processes() -> list[Workload]:
    return [
        Workload(
            "fork",
            ("fork_copies",),
            (
                _memory("pages_copied", "pages copied, forked child frees 90 %", "pages"),
                Metric("free_ns", "each such free"),
            ),
            TODAY,
            ("memory", "fork"),
            "a forked child frees 90 % of its parent's blocks: how many pages must the kernel copy?",
        ),
        Workload(
            "fork-heavy",
            ("fork_heavy",),
            (
                Metric("child_us", "a forked child's 20,000 replacements", "us"),
                Metric("fork_us", "the fork itself", "us"),
                _memory("child_faults", "page faults of a child", "pages"),
            ),
            TODAY,
            ("memory", "fork"),
            "a parent forks again and again; parent and children free and allocate",
        ),
        Workload(
            "startup",
            ("startup",),
            (
                Metric("startup_us", "hello, world: spawn to exit", "us"),
                _memory("hello_anonymous_kib", "hello, world: anonymous RSS", "KiB"),
            ),
            QUICK,
            ("memory",),
            "what the allocator adds to the smallest program",
        ),
    ]


def _scaling() -> list[Workload]:
    """A fixed amount of work, shared out over more and more threads; far more than there are CPUs, too."""
    rows = {
        "random": ("random_replace --slots 1000 --steps 24000000 --threads {threads}", "random replacement"),
        "xmalloc": ("xmalloc --blocks 18000000 --threads {threads}", "xmalloc: every free is another thread's"),
        "larson": ("larson --steps 24000000 --generations 10 --threads {threads}", "larson"),
        "prodcons": ("producer_consumer --pairs {threads}", "pairs of producer and consumer (2 threads a pair)"),
        "server": ("server --threads {threads}", "requests of a server"),
        "kv-cache": ("kv_cache --requests 200000 --threads {threads}", "requests to a cache"),
    }
    return [
        Workload(
            f"{name}-scaling",
            tuple(command.split()),
            (Metric(WALL_NS, f"{label} (wall)"), Metric(CPU_NS, f"{label} (CPU)"), PEAK_RSS),
            ("scaling",),
            ("threads",),
            f"{label}: the same work by more and more threads",
            threads=(1, 2, 4),
            scaling=SCALING,
        )
        for name, (command, label) in rows.items()
    ]


WORKLOADS: tuple[Workload, ...] = (
    *_fast_path(),
    *_random(),
    *_spill(),
    *_phases(),
    *_rings_and_rounds(),
    *_threads(),
    *_server(),
    *_cache(),
    *_growing_and_aligned(),
    *_large(),
    *_locality(),
    *_resident(),
    *_processes(),
    *_scaling(),
)
