# SPDX-License-Identifier: MIT
#
# simulation.py: discrete-event simulations. Figs 12 to 14 of HMalloc 2020 plot execution time under a variable of the
# model (ends printed, steps not), with conservative synchronisation, at a number of threads that the paper does not
# print; its machine had 16 cores. Here a point of these curves runs with 8 threads, and the suite `scaling` has a point
# of each with the paper's 1 to 16. The simulated time is such that a sample takes about half a second.
#
# The optimistic twins (Time Warp) are ours: besides events they allocate and free a saved state for every event, and
# some of it is undone. How much depends on how the threads were scheduled, so their times vary more.
"""Discrete-event simulations: PHOLD, PCS and Airport."""

from __future__ import annotations

from harness.workload import CPU_NS, PEAK_RSS, WALL_NS, Metric, Workload

WALL = Metric(WALL_NS, "time an event")
# Of the same runs: it must not count twice in the mean of times.
CPU = Metric(CPU_NS, "CPU time an event", timing=False)
CPU_MAIN = Metric(CPU_NS, "CPU time an event")  # where scheduling decides how much is done twice
REMOTE_FREES = Metric("remote_percent", "frees by another thread", "%", timing=False)
ROLLED_BACK = Metric("rolled_back", "events rolled back", "", timing=False)

THREADS = "8"
SCALING = (1, 2, 4, 8, 16)
# Blocks are freed by other threads than those that allocated them.
GROUPS = ("simulation", "remote-frees")
SYNCHRONISATION = {"conservative": "conservative windows", "optimistic": "Time Warp"}

# The program, the figure, what it simulates, its variable with that argument, and the points: value -> simulated time.
MODELS = {
    "phold": (
        "Fig. 12",
        "a synthetic simulation",
        "% of its events to any process",
        "--remote",
        {0: 120, 10: 120, 25: 120, 50: 120, 75: 120, 100: 120},
    ),
    "pcs": (
        "Fig. 13",
        "a simulation of mobile phones",
        "events a cell",
        "--events-per-cell",
        {20: 18000, 50: 7000, 100: 3000, 200: 1800},
    ),
    "airport": (
        "Fig. 14",
        "a simulation of planes between airports",
        "planes an airport",
        "--planes",
        {50: 400, 100: 160, 200: 70, 500: 25},
    ),
}
QUICK = ("phold-50-conservative-hmalloc",)


def _arguments(model: str, value: int, protocol: str, threads: str) -> tuple[str, ...]:
    *_, option, points = MODELS[model]
    sync = "timewarp" if protocol == "optimistic" else protocol
    return (model, option, str(value), "--end", str(points[value]), "--sync", sync, "--threads", threads)


def _point(model: str, value: int, protocol: str) -> Workload:
    item, subject, variable, _, points = MODELS[model]
    name = f"{model}-{value}-{protocol}-hmalloc"
    return Workload(
        name,
        _arguments(model, value, protocol, THREADS),
        (WALL, CPU, REMOTE_FREES, PEAK_RSS) if protocol == "conservative" else (CPU_MAIN, ROLLED_BACK, PEAK_RSS),
        ("papers", "quick") if name in QUICK else ("papers",),
        (model, protocol, *GROUPS),
        f"{subject}, {value} {variable}, {points[value]} units of time; {SYNCHRONISATION[protocol]}, {THREADS} threads",
        paper="hmalloc",
        item=item,
    )


def _over_threads(model: str, value: int, protocol: str) -> Workload:
    item, subject, variable, *_ = MODELS[model]
    return Workload(
        f"{model}-{value}-{protocol}-threads",
        _arguments(model, value, protocol, "{threads}"),
        (WALL, CPU, REMOTE_FREES, PEAK_RSS),
        ("scaling",),
        (model, protocol, *GROUPS),
        f"{subject}, {value} {variable}; {SYNCHRONISATION[protocol]}",
        paper="hmalloc",
        item=item,
        threads=SCALING,
        scaling=SCALING,
    )


def _today(name: str, arguments: str, what: str, **more: tuple[str, ...]) -> Workload:
    program, *rest = arguments.split()
    return Workload(
        name,
        (program, "--threads", "{threads}", *rest),
        (CPU_MAIN, ROLLED_BACK, REMOTE_FREES, PEAK_RSS),
        ("today",),
        (program, *GROUPS),
        what,
        threads=(2,),
        **more,
    )


WORKLOADS: tuple[Workload, ...] = (
    *(
        _point(model, value, protocol)
        for protocol in SYNCHRONISATION
        for model, (*_, points) in MODELS.items()
        for value in points
    ),
    _over_threads("phold", 50, "conservative"),
    _over_threads("pcs", 100, "conservative"),
    _over_threads("airport", 100, "conservative"),
    _over_threads("phold", 50, "optimistic"),
    _today(
        "phold-timewarp",
        "phold --sync timewarp --remote 50",
        "synthetic simulation by Time Warp: saved states, rollbacks, anti-messages",
    ),
    _today(
        "airport-round-robin",
        "airport --planes 50 --mapping round-robin",
        "planes between airports, neighbouring airports on different threads; conservative windows",
    ),
    _today(
        "phold-timewarp-hint",
        "phold --sync timewarp --remote 50 --hint",
        "the same as phold-timewarp, a thread's own blocks from freeway_malloc_local",
        allocators=("hmalloc",),
    ),
)
