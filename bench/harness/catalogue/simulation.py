# SPDX-License-Identifier: MIT
#
# simulation.py: discrete-event simulations. Figs 12 to 14 of HMalloc 2020 plot execution time under a parameter of the
# model, at a number of threads that the paper does not print (its machine had 16 cores), with conservative
# synchronisation. Their ends are here, and PHOLD's middle; the simulated time is such that a sample takes about a
# second.
#
# Time Warp is ours: besides events it allocates and frees a saved state for every event, and much of it is undone. How
# much depends on how the threads were scheduled, so its times vary more.
"""Discrete-event simulations: PHOLD, PCS and Airport."""

from __future__ import annotations

from harness.workload import CPU_NS, PEAK_RSS, WALL_NS, Metric, Workload

WALL = Metric(WALL_NS, "time an event")
# Of the same runs: it must not count twice in the mean of times.
CPU = Metric(CPU_NS, "CPU time an event", timing=False)
REMOTE_FREES = Metric("remote_percent", "frees by another thread", "%", timing=False)
ROLLED_BACK = Metric("rolled_back", "events rolled back", "", timing=False)

THREADS = (1, 2, 8)
SCALING = (1, 2, 4, 8, 16)
# Blocks are freed by other threads than those that allocated them.
GROUPS = ("simulation", "remote-frees")


def _paper(name: str, arguments: str, item: str, what: str, *, quick: bool = False) -> Workload:
    program, *rest = arguments.split()
    return Workload(
        f"{name}-hmalloc",
        (program, "--threads", "{threads}", *rest),
        (WALL, CPU, REMOTE_FREES, PEAK_RSS),
        ("papers", "scaling", "quick") if quick else ("papers", "scaling"),
        (program, *GROUPS),
        what,
        paper="hmalloc",
        item=item,
        threads=THREADS,
        scaling=SCALING,
    )


def _today(name: str, arguments: str, what: str, threads: tuple[int, ...], **more: tuple[str, ...]) -> Workload:
    program, *rest = arguments.split()
    return Workload(
        name,
        (program, "--threads", "{threads}", *rest),
        (Metric(CPU_NS, "CPU time an event"), ROLLED_BACK, REMOTE_FREES, PEAK_RSS),
        ("today",),
        (program, *GROUPS),
        what,
        threads=threads,
        **more,
    )


def _phold(remote: int, *, quick: bool = False) -> Workload:
    what = f"synthetic simulation, {remote} % of the events to any process; conservative windows"
    return _paper(f"phold-r{remote}", f"phold --remote {remote}", "Fig. 12", what, quick=quick)


def _pcs(events: int, end: int, *, quick: bool = False) -> Workload:
    what = f"mobile phones, {events} events a cell; conservative windows, {end} s"
    return _paper(f"pcs-{events}", f"pcs --events-per-cell {events} --end {end}", "Fig. 13", what, quick=quick)


def _airport(planes: int, end: int) -> Workload:
    what = f"planes between airports, {planes} planes an airport; conservative windows, {end} min"
    return _paper(f"airport-{planes}", f"airport --planes {planes} --end {end}", "Fig. 14", what)


WORKLOADS: tuple[Workload, ...] = (
    _phold(0),
    _phold(50, quick=True),
    _phold(100),
    _pcs(20, 36000),
    _pcs(200, 2400),
    _airport(50, 900),
    _airport(500, 30),
    _today(
        "airport-round-robin",
        "airport --planes 50 --mapping round-robin",
        "planes between airports, neighbouring airports on different threads; conservative windows",
        (2, 8),
    ),
    _today(
        "phold-timewarp",
        "phold --sync timewarp --remote 50",
        "synthetic simulation by Time Warp: saved states, rollbacks, anti-messages",
        (2, 8),
    ),
    _today(
        "airport-timewarp",
        "airport --sync timewarp --planes 50 --mapping round-robin",
        "planes between airports by Time Warp",
        (2,),
    ),
    _today(
        "phold-timewarp-hint",
        "phold --sync timewarp --remote 50 --hint",
        "the same as phold-timewarp, a thread's own blocks from freeway_malloc_local",
        (2, 8),
        allocators=("hmalloc",),
    ),
)
