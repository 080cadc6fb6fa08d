# SPDX-License-Identifier: MIT
#
# plan.py: what a run consists of: which workloads with how many threads, under which allocators, how often. Pure
# functions: nothing is run here.
"""Suites and the order of samples."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.allocators import BUILT_PEERS, DEBIAN, ENGINES, FREEWAY, GLIBC, LOCKED, STAND_INS, Allocator
from harness.results import Case
from harness.workload import Workload

NO_RSEQ = f"{FREEWAY}-no-rseq"
LOCAL_ONLY = ("hmalloc-local",)  # must not be given workloads of this group
REMOTE_FREES = "remote-frees"
PEERS = (*(name for name, _, _ in DEBIAN), *BUILT_PEERS)


@dataclass(frozen=True)
class Suite:
    """A choice of workloads that is measured in one way."""

    name: str
    repeats: int
    allocators: tuple[str, ...]
    minutes: float | None = None  # default time limit
    what: str = ""
    timeout_s: float | None = None  # of one sample, where the workloads' own would be too patient


SUITES = {
    suite.name: suite
    for suite in (
        Suite("quick", 5, (GLIBC, FREEWAY, "mimalloc3", "snmalloc", "jemalloc", "tcmalloc"), 9,
              "some workloads of each kind under six allocators, within ten minutes", 60),
        Suite("today", 5, (GLIBC, FREEWAY, NO_RSEQ, *PEERS, *ENGINES), None, "programs of today, all allocators"),
        Suite("papers", 3, (GLIBC, LOCKED, FREEWAY), None,
              "the papers' workloads with the papers' numbers of threads; each paper's engine and its variants join"),
        Suite("real", 5, (GLIBC, FREEWAY, *PEERS, *ENGINES), None, "real programs"),
        Suite("small", 9, (GLIBC, FREEWAY, "rpmalloc", "jemalloc", "snmalloc", "mimalloc2", "mimalloc3"), None,
              "what small programs have at their peak"),
        Suite("fleet", 5, (GLIBC, FREEWAY, *PEERS), None, "profiles of services, from the files in build/fleet"),
        Suite("scaling", 3, (GLIBC, FREEWAY, "mimalloc3", "jemalloc", "tcmalloc"), None,
              "speed over the number of threads, up to all CPUs and far beyond; a paper's engine joins"),
    )
}  # fmt: skip
# Allocators that a paper compares itself with and that there still are, beside glibc (harness/report/papers).
COMPARED_WITH = {"streamflow": ("michael", "tcmalloc-2.10")}
ALL = "all"
CHOSEN = "chosen"  # named workloads, each as its own suite measures it


@dataclass(frozen=True)
class Item:
    """One row of the plan."""

    workload: Workload
    case: Case
    allocators: tuple[Allocator, ...]
    repeats: int


def thread_counts(workload: Workload, suite: str, cpus: int) -> list[int | None]:
    """With how many threads a suite runs a workload. The quick one: as many as there are CPUs, or the next smaller."""
    if not any("{threads}" in word for word in workload.argv):
        return [None]
    declared = sorted(set(workload.threads)) or [cpus]
    if suite == "quick":
        return [max((n for n in declared if n <= cpus), default=declared[0])]
    if suite == "scaling":
        doubled = {1 << power for power in range(cpus.bit_length())} | {cpus}
        return sorted({*declared, *workload.scaling, *doubled})
    return list(declared)


def names_for(workload: Workload, suite: Suite, known: dict[str, Allocator]) -> list[str]:
    """The allocators a suite measures a workload with by default. A preferred peer that is missing is still named, and
    its stand-in joins."""
    if workload.allocators:
        return list(workload.allocators)
    names = list(suite.allocators)
    if suite.name == "scaling" and workload.paper in known:
        names.append(workload.paper)
    if suite.name == "papers" and workload.paper:
        variants = [n for n in known if n == workload.paper or n.startswith(f"{workload.paper}-")]
        names += [n for n in variants if not (n in LOCAL_ONLY and REMOTE_FREES in workload.groups)]
        names += COMPARED_WITH.get(workload.paper, ())
    if suite.name in ("quick", "scaling"):
        names += [STAND_INS[n] for n in names if n in STAND_INS and (n not in known or known[n].failed)]
    return [name for name in dict.fromkeys(names) if name in known]


def chosen(workloads: Iterable[Workload], words: Sequence[str]) -> list[Workload]:
    """Those whose name, group, paper or, if nothing else fits, prefix is among `words`; all without words.

    ValueError for a word that fits none."""
    everything = list(workloads)
    if not words:
        return everything
    found: set[str] = set()
    for word in words:
        fitting = {w.name for w in everything if word == w.name or word in w.groups or (word and word == w.paper)}
        fitting = fitting or {w.name for w in everything if w.name.startswith(word)}
        if not fitting:
            raise ValueError(f"no workload, group or paper '{word}'; `lab list` shows them")
        found |= fitting
    return [w for w in everything if w.name in found]


def suites_of(workload: Workload, suite: str) -> list[Suite]:
    """The suites in which a run of `suite` measures this workload: none if it is not part of it."""
    member = [s for s in SUITES.values() if s.name in workload.suites or (s.name == "scaling" and workload.scaling)]
    thorough = [s for s in member if s.name != "quick"] or member  # what is quick is in another suite, too
    if suite == ALL:
        return thorough
    if suite == CHOSEN:
        return thorough[:1]
    return [s for s in member if s.name == suite]


def make_plan(
    suite: str,
    workloads: Sequence[Workload],
    known: dict[str, Allocator],
    cpus: int,
    allocators: Sequence[Allocator] = (),
    repeats: int | None = None,
) -> list[Item]:
    """The rows of a run; a row that several suites have is there once, with all their allocators. `allocators` and
    `repeats`, if given, replace the suites'."""
    merged: dict[Case, Item] = {}
    for workload in workloads:
        for each in suites_of(workload, suite):
            if allocators:
                under = [a for a in allocators if not workload.allocators or a.name in workload.allocators]
            else:
                under = [known[name] for name in names_for(workload, each, known)]
            for threads in thread_counts(workload, each.name, cpus):
                case = Case(workload.name, threads)
                before = merged.get(case)
                joined = {a.name: a for a in (*(before.allocators if before else ()), *under)}
                times = max(repeats or each.repeats, before.repeats if before else 0)
                if joined:
                    merged[case] = Item(workload, case, tuple(joined.values()), times)
    return list(merged.values())


def shuffled(allocators: Sequence[Allocator], case: Case, repeat: int) -> list[Allocator]:
    """The order within one repeat: another one each time, the same when a run is resumed.

    Not a rotation: what a program leaves behind helps or hinders the next one. A virtual machine whose host takes free
    memory back gives huge pages quickly to whoever runs just after somebody else who had some; rotated, it would always
    be the same one."""
    return random.Random(f"{case} {repeat}").sample(list(allocators), len(allocators))
