# SPDX-License-Identifier: MIT
#
# subjects.py: the allocators whose profilers are compared, with a profile and without.
"""Allocators with heap profilers, and the environment that turns them on."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.allocators import Allocator, known_allocators

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FREEWAY_BUILD_DIR", ROOT / "build/release"))
UNWANTED = ("FREEWAY_", "MALLOC_", "TCMALLOC_", "HEAP", "LD_PRELOAD", "GLIBC_TUNABLES")


@dataclass(frozen=True)
class Subject:
    """A column: an allocator of bench/lab's, and what turns its profiler on (nothing: off)."""

    name: str
    allocator: str
    variables: dict[str, str]
    what: str

    def off(self) -> Subject:
        """The same allocator without a profile."""
        return next(s for s in WITHOUT if s.allocator == self.allocator)

    def environment(self, known: dict[str, Allocator]) -> dict[str, str]:
        """For a program that runs under it."""
        library, variables = self._needs(known)
        return {**wanted_environment(), **({"LD_PRELOAD": library} if library else {}), **variables}

    def driver_environment(self, known: dict[str, Allocator]) -> dict[str, str]:
        """For a driver of bench/real, which runs without the allocator (harness/real_program.py)."""
        library, variables = self._needs(known)
        return {
            **wanted_environment(),
            "LAB_PRELOAD": library or "libc.so.6",
            "LAB_VARIABLES": json.dumps(variables),
            "LAB_MEASURED_RUN": str(BUILD / "bench/measured_run"),
        }

    def _needs(self, known: dict[str, Allocator]) -> tuple[str, dict[str, str]]:
        """Library (none: "") and variables. What is not there ends the run, with what to do."""
        allocator = known.get(self.allocator)
        if allocator is None or allocator.failed:
            sys.exit(f"{self.allocator} is not there: {allocator.failed if allocator else 'make peers'}")
        return str(allocator.library or ""), {**allocator.variables, **self.variables}


def wanted_environment() -> dict[str, str]:
    """This one, without what is for allocators."""
    return {k: v for k, v in os.environ.items() if not k.startswith(UNWANTED)}


JEMALLOC, TCMALLOC = "jemalloc-prof", "tcmalloc-2.10-prof"
WITH = (
    Subject("freeway 512k", "freeway", {"FREEWAY_PROFILE": "512k"}, "`FREEWAY_PROFILE=512k`"),
    Subject("freeway 64k", "freeway", {"FREEWAY_PROFILE": "64k"}, "`FREEWAY_PROFILE=64k`"),
    Subject(
        "jemalloc 512k",
        JEMALLOC,
        {"MALLOC_CONF": "prof:true,lg_prof_sample:19,prof_active:true,prof_final:true"},
        "`MALLOC_CONF=prof:true,lg_prof_sample:19,prof_active:true,prof_final:true`, `mallctl(prof.dump)`",
    ),
    Subject("gperftools", TCMALLOC, {"HEAPPROFILE": "storm"}, "`HEAPPROFILE=…`, `HeapProfilerDump`: every allocation"),
)
WITHOUT = (
    Subject("freeway, off", "freeway", {}, "no profile"),
    Subject("jemalloc, off", JEMALLOC, {}, "no profile"),
    Subject("gperftools, off", TCMALLOC, {}, "no profile"),
    Subject("glibc", "glibc", {}, "it has no profiler"),
)
# For costs only: gperftools' other profile, which programs fetch by MallocExtension, with no function of C.
SAMPLED = Subject(
    "gperftools 512k", TCMALLOC, {"TCMALLOC_SAMPLE_PARAMETER": "524288"}, "`TCMALLOC_SAMPLE_PARAMETER=524288`"
)


def known() -> dict[str, Allocator]:
    """What bench/lab knows, by name."""
    return known_allocators(BUILD)
