# SPDX-License-Identifier: MIT
#
# loaded.py: was the right allocator really used? Being mapped is not enough: a program that is linked with a malloc of
# its own, or another preload, may still go elsewhere. So the first run of a program under an allocator is made with the
# loader's own report of its bindings (LD_DEBUG=bindings), all bound at the start (LD_BIND_NOW).
"""To which library `malloc` was bound."""

from __future__ import annotations

import re
from pathlib import Path

BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `malloc'")
# In a program that computes for less than this, measured_run may not have looked in time: it looks every 20 ms, and on
# a busy machine a program may begin late.
LEAST_JUDGED_S = 0.2


def loader_variables(prefix: Path) -> dict[str, str]:
    """What makes the loader write its bindings to files prefix.PID."""
    return {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(prefix), "LD_BIND_NOW": "1"}


Bindings = dict[str, set[str]]  # who called for `malloc`, and which files it got


def bindings_in(text: str) -> Bindings:
    """Those of one process's report."""
    found: Bindings = {}
    for caller, target in BINDING.findall(text):
        found.setdefault(str(Path(caller).resolve()), set()).add(str(Path(target).resolve()))
    return found


def ends_of(caller: str, bindings: Bindings, wanted: str) -> set[str]:
    """The files at which calls of `caller` end; `wanted` always is an end.

    The way may lead through the program: if it takes malloc's address and lies at a fixed place, others are bound to
    an entry in it, which only jumps on to what the program's own calls are bound to. Such a program, and none that it
    jumps to, is bound to itself as well."""
    ends: set[str] = set()
    waiting, seen = list(bindings[caller]), {caller}
    while waiting:
        file = waiting.pop()
        bound = bindings.get(file, set())
        onward = bound - {file} if file in bound else set()
        if file == wanted or not onward:
            ends.add(file)
        elif file not in seen:
            waiting += onward
        seen.add(file)
    return ends


def fault_of_bindings(prefix: Path, expected: Path) -> str:
    """Why the reports at `prefix` do not show that `malloc` is `expected`'s; "" if they do, in every process."""
    wanted, bound = str(expected.resolve()), False
    for report in sorted(prefix.parent.glob(f"{prefix.name}.*")):
        bindings = bindings_in(report.read_text(errors="replace"))
        bound = bound or bool(bindings)
        for caller in bindings:
            for end in ends_of(caller, bindings, wanted) - {wanted}:
                return f"malloc of {Path(caller).name} is {Path(end).name}'s, not {expected.name}'s"
    return "" if bound else "the loader bound no malloc: statically linked, or not started by a loader"


def fault_of_mapping(mapped: bool, cpu_s: float, library: Path | None) -> str:
    """The cheaper check of every run: was the library among the mappings?"""
    if library is None or mapped or cpu_s < LEAST_JUDGED_S:
        return ""
    return f"{library.name} was not mapped"
