# SPDX-License-Identifier: MIT
#
# papers.py: the micro benchmarks of Michael 2004, LFMalloc (Dice and Garthwaite 2002), Streamflow 2006, HMalloc 2020.
# Parameters are the programs' presets; what is divided or multiplied here, so that a sample takes about half a second
# on few cores, is said in `what`. `threads` are some of the paper's numbers of threads, `scaling` are all of them.
#
# Under which allocators: the suite `papers` adds each paper's engine and its variants. Those that the papers compare:
# michael-one-heap (section 4.2.4), lfmalloc-mutex-cpu and -mutex-thread (Table 3), streamflow-headers and -superpages,
# hmalloc-local (HMalloc's engine that is told which blocks are local). Workloads of the group "remote-frees" have no
# local ones: any block may be freed by another thread.
"""The papers' micro benchmarks."""

from __future__ import annotations

from harness.workload import CPU_NS, PEAK_RSS, WALL_NS, Metric, Workload

WALL = Metric(WALL_NS, "time")
# Of the same runs: it must not count twice in the mean of times.
CPU = Metric(CPU_NS, "CPU time", timing=False)
HEAP = Metric("heap_kib", "growth of the heap", "KiB", timing=False)
REMOTE = "remote-frees"

MICHAEL_THREADS = (1, 2, 4, 8, 16)
LFMALLOC_THREADS = (1, 2, 16, 64, 256)
LARSON_PEAK = 24  # where the paper's larson without malloc was fastest
LFMALLOC_SCALING = (*range(1, 17), 18, 20, 22, 24, 26, 28, 30, 32, 64, 128, 256)
STREAMFLOW_THREADS = (1, 2, 4, 8)
HMALLOC_THREADS = (1, 2, 4, 8, 16)
HMALLOC_CONSUMERS = (1, 3, 7, 15)


def _declare(
    name: str,
    paper: str,
    arguments: str,
    item: str,
    what: str,
    threads: tuple[int, ...],
    scaling: tuple[int, ...],
    *,
    metrics: tuple[Metric, ...] = (WALL, CPU, PEAK_RSS),
    groups: tuple[str, ...] = (),
    quick: bool = False,
    allocators: tuple[str, ...] = (),
) -> Workload:
    """`arguments`: the program and what its preset does not say."""
    program, *rest = arguments.split()
    preset = () if "--preset" in rest else ("--preset", paper)
    count = ("--threads", "{threads}") if threads else ()
    suites = ("papers", "quick") if quick else ("papers",)
    return Workload(
        f"{name}-{paper}",
        (program, *preset, *count, *rest),
        metrics,
        suites,
        (name, *groups),
        what,
        paper,
        item,
        threads,
        scaling,
        allocators,
    )


def _michael(name: str, arguments: str, item: str, what: str, *groups: str, quick: bool = False) -> Workload:
    metrics = (WALL, CPU, HEAP, PEAK_RSS) if "heap" in groups else (WALL, CPU, PEAK_RSS)
    groups = tuple(group for group in groups if group != "heap")
    return _declare(name, "michael", arguments, item, what, MICHAEL_THREADS, tuple(range(1, 17)),
                    metrics=metrics, groups=groups, quick=quick)  # fmt: skip


def _lfmalloc(
    name: str,
    arguments: str,
    item: str,
    what: str,
    threads: tuple[int, ...] = LFMALLOC_THREADS,
    groups: tuple[str, ...] = (),
) -> Workload:
    return _declare(name, "lfmalloc", arguments, item, what, threads, LFMALLOC_SCALING, groups=groups)


def _streamflow(name: str, arguments: str, what: str, *groups: str, quick: bool = False) -> Workload:
    return _declare(name, "streamflow", arguments, "Fig. 3, Tables 1 and 2", what, STREAMFLOW_THREADS,
                    tuple(range(1, 9)), groups=groups, quick=quick)  # fmt: skip


def _hmalloc(name: str, arguments: str, item: str, what: str, *groups: str) -> Workload:
    return _declare(name, "hmalloc", arguments, item, what, HMALLOC_THREADS, tuple(range(1, 17)), groups=groups)


_WORK = "a lock-free queue of tasks, made by one thread and done by the others, {} steps of work each; 250,000 tasks"

_MICHAEL = (
    _michael("linux-scalability", "linux_scalability", "Table 1, Fig. 8a, §4.2.4",
             "10 million malloc/free pairs of 8 bytes in each thread"),
    _michael("threadtest", "threadtest --shrink 2", "Table 1, Fig. 8b, §4.2.5",
             "100,000 blocks of 8 bytes allocated, then freed in order, in each thread; half of the paper's 100 rounds",
             "heap"),
    _michael("active-false", "active_false --pairs 40000", "Fig. 8c",
             "blocks of 8 bytes, each byte written 1,000 times; four times the paper's 10,000 pairs a thread"),
    _michael("passive-false", "passive_false --pairs 40000", "Fig. 8d",
             "the same after freeing a block from another thread; four times the paper's 10,000 pairs", REMOTE),
    _michael("larson", "larson --shrink 2", "Table 1, Fig. 8e, §4.2.5",
             "1024 blocks of 16 to 80 bytes a thread replaced at random; 24 million pairs where the paper has 30 s",
             "heap", REMOTE, quick=True),
    *(
        _michael(f"producer-consumer-{work}", f"lockfree_producer_consumer --work {work} --shrink 4", item,
                 _WORK.format(work) + ", where the paper has 30 s", "heap", REMOTE)
        for work, item in ((500, "Fig. 8f"), (750, "Fig. 8g, §4.2.5"), (1000, "Fig. 8h"))
    ),
)  # fmt: skip

_TABLE_2 = (
    WALL,
    CPU,
    Metric("processor_ns", "time of a pair on one of the CPUs", timing=False),
    Metric("user_percent", "user CPU time, all CPUs", "%", timing=False, higher_is_better=True),
    Metric("switches_per_second", "context switches", "1/s", timing=False),
    HEAP,
    PEAK_RSS,
)
_LFMALLOC = (
    _lfmalloc("larson", "larson --shrink 8", "Fig. 1a",
              "a server's blocks replaced at random by successions of threads that start behind a barrier; 6 million "
              "pairs, parameters not printed", (1, 2, 16, LARSON_PEAK, 64, 256), (REMOTE,)),
    _declare("larson-no-malloc", "lfmalloc", "larson --preset lfmalloc --no-malloc 1 --shrink 2", "§4.3",
             "larson without malloc and free in its loop: what the program itself costs", (LARSON_PEAK,),
             LFMALLOC_SCALING, groups=(REMOTE,), allocators=("glibc", "lfmalloc", "freeway")),
    _declare("threadtest", "lfmalloc", "threadtest --shrink 4", "Fig. 1b, §4.3",
             "65,536 blocks of 56 bytes, shared out among the threads, allocated and freed 250 times; parameters not "
             "printed, they give the printed footprint when all threads hold their blocks at once",
             LFMALLOC_THREADS, LFMALLOC_SCALING,
             metrics=(WALL, CPU, HEAP, PEAK_RSS)),
    _lfmalloc("linux-scalability", "linux_scalability --blocks 2000000", "Fig. 1c",
              "2 million malloc/free pairs of 512 bytes in each thread, twice the original program's"),
    _lfmalloc("mmicro", "mmicro --preset lfmalloc-table3 --shrink 4", "Fig. 1d, 1e, Table 3",
              "rounds of 64 blocks of 64 bytes, freed in order; 16 million pairs where the paper has 10 s"),
    _declare("mmicro-64", "lfmalloc", "mmicro --preset lfmalloc --shrink 2", "Table 2",
             "mmicro 64 :10000 200: 64 threads, rounds of 64 blocks of 200 bytes, freed in order; 32 million pairs "
             "where the paper has 10 s. Cycles, misses and snoops would need the processor's counters", (), (),
             metrics=_TABLE_2),
)  # fmt: skip

_STREAMFLOW = (
    _streamflow("recycle", "recycle --shrink 2",
                "8-byte blocks that never leave their thread, freed after each 1000; 5 million a thread, half of the "
                "paper's"),
    _streamflow("larson", "larson --generations 1695",
                "1000 blocks of 7 bytes a lane, all replaced by each of a succession of threads: all are freed by "
                "another thread, most after their own has ended; 1695 successions, five times the paper's blocks",
                REMOTE),
    _streamflow("consume", "consume --shrink 10",
                "one thread allocates 6000 blocks of 4 bytes for each of N others, which free them; 500 iterations, a "
                "tenth of the paper's", REMOTE, quick=True),
)  # fmt: skip

_HMALLOC = (
    _hmalloc("threadtest", "threadtest --shrink 40", "Fig. 11a, Table 2",
             "100,000/N blocks of 64 bytes allocated and freed by each of N threads; 125 rounds of the paper's 5000"),
    _hmalloc("linux-scalability", "linux_scalability --shrink 16", "Fig. 11b, Table 2",
             "blocks of 512 bytes, all allocated, then all freed; 62,500 a thread, a sixteenth of the paper's"),
    _hmalloc("shbench", "shbench --shrink 200", "Fig. 11c, Table 2",
             "1000 blocks of 1 to 1024 bytes, freed one after the other; 10,000/N times of the paper's 2,000,000/N"),
    _hmalloc("largetest", "largetest --shrink 50", "Fig. 11d, Table 2",
             "100 blocks of 64 bytes and one of 64 KiB; 20,000 times a thread, a fiftieth of the paper's"),
    _declare("producer-consumer", "hmalloc", "consume --preset hmalloc", "Fig. 11e, Table 2",
             "one thread allocates a million blocks of 8 bytes for each of N others, which free them",
             HMALLOC_CONSUMERS, tuple(range(1, 16)), groups=(REMOTE,)),
    _hmalloc("larson", "larson --shrink 16", "Fig. 11f, Table 2",
             "10,000 blocks of 8 to 512 bytes a lane replaced at random by successions of threads; 3 million pairs "
             "where the paper has 10 s", REMOTE),
    _hmalloc("active-false", "active_false --shrink 200", "Fig. 11g, Table 2",
             "blocks of 8 bytes, each byte written 20,000 times; 1000 pairs a thread of the paper's 200,000"),
    _hmalloc("passive-false", "passive_false --shrink 20", "Fig. 11h, Table 2",
             "N blocks of 8 bytes handed to N threads, which free them and allocate and write one of their own; "
             "500,000 rounds, a twentieth of the paper's"),
    _declare("producer-consumer-table1", "hmalloc", "consume --preset hmalloc-table1 --shrink 20", "Table 1",
             "the same as the paper's Table 1 describes it: 7500 blocks of 8 bytes a hand-over; 250 of 5000 iterations",
             (15,), (), groups=(REMOTE,)),
    _declare("largetest-table1", "hmalloc", "largetest --preset hmalloc-table1 --shrink 200", "Table 1",
             "largetest as the paper's Table 1 describes it: 100,000 blocks between all threads, 64 KiB after each "
             "hundred; 25 of 5000 iterations", (16,), ()),
)  # fmt: skip

WORKLOADS: tuple[Workload, ...] = (*_MICHAEL, *_LFMALLOC, *_STREAMFLOW, *_HMALLOC)
