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
LEAST_JUDGED_S = 0.1  # in a shorter run measured_run may not have looked in time


def loader_variables(prefix: Path) -> dict[str, str]:
    """What makes the loader write its bindings to files prefix.PID."""
    return {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(prefix), "LD_BIND_NOW": "1"}


def bound_to(text: str) -> list[tuple[str, str]]:
    """Who called for `malloc`, and which library it got, from one report."""
    return BINDING.findall(text)


def fault_of_bindings(prefix: Path, expected: Path) -> str:
    """Why the reports at `prefix` do not show that `malloc` is `expected`'s; "" if they do, in every process."""
    target, bindings = expected.resolve(), []
    for report in sorted(prefix.parent.glob(f"{prefix.name}.*")):
        bindings += bound_to(report.read_text(errors="replace"))
    if not bindings:
        return "the loader bound no malloc: statically linked, or not started by a loader"
    for caller, library in bindings:
        if Path(library).resolve() != target:
            return f"malloc of {Path(caller).name} is {Path(library).name}'s, not {expected.name}'s"
    return ""


def fault_of_mapping(mapped: bool, wall_s: float, library: Path | None) -> str:
    """The cheaper check of every run: was the library among the mappings?"""
    if library is None or mapped or wall_s < LEAST_JUDGED_S:
        return ""
    return f"{library.name} was not mapped"
