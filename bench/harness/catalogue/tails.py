# SPDX-License-Identifier: MIT
#
# tails.py: the longest calls. Programs in bench/workloads/single_calls.
"""How late a single call may be."""

from __future__ import annotations

from harness.workload import CPU_NS, Metric, Workload

TRIMMED_MIB = 2048


def _us(key: str, label: str) -> Metric:
    return Metric(key, label, "us", timing=False)


NOTHING = (
    _us("nothing_p9999_us", "nothing at all, 99.99 %"),
    _us("nothing_max_us", "nothing at all, the longest"),
)


def _calls(label: str) -> tuple[Metric, ...]:
    return (
        _us("malloc_p9999_us", f"malloc {label}, 99.99 %"),
        _us("malloc_max_us", f"malloc {label}, the longest"),
        _us("free_p9999_us", f"free {label}, 99.99 %"),
        _us("free_max_us", f"free {label}, the longest"),
        *NOTHING,
        Metric(CPU_NS, f"a timed call {label}", timing=False),
    )


def _alone(threads: int) -> Workload:
    return Workload(
        f"tails-alone-{threads}",
        ("tails", "--threads", str(threads), "--disturb", "none", "--fifo", "1"),
        _calls("while nothing happens"),
        ("today",),
        ("tails",),
        "each call timed: what is late where nobody disturbs",
    )


def _disturbed(threads: int) -> Workload:
    return Workload(
        f"tails-{threads}",
        ("tails", "--threads", str(threads), "--fifo", "1"),
        _calls("beside trims, forks, held and dying threads"),
        ("today",),
        ("tails",),
        "each call timed, while others trim, fork, are held inside a call, come and go",
    )


WORKLOADS: tuple[Workload, ...] = (
    _alone(1),
    _disturbed(1),
    _disturbed(2),
    Workload(
        "tails-trimmed-8",
        ("tails", "--threads", "8", "--calls", "2000000", "--disturb", "trim", "--trim-mib", str(TRIMMED_MIB)),
        _calls("beside trims of 2 GiB"),
        ("today",),
        ("tails",),
        "eight busy threads, while another allocates 2 GiB, frees and trims them, again and again",
    ),
)
