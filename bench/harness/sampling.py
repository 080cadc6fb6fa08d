# SPDX-License-Identifier: MIT
#
# sampling.py: one sample: a workload run once under one allocator, through measured_run, and what became of it.
"""Taking one sample."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.allocators import ROOT, Allocator, libc
from harness.launch import Ended, launch, signal_name
from harness.loaded import fault_of_bindings, fault_of_mapping, loader_variables
from harness.machine import ForeignCpu
from harness.real_program import NOT_INSTALLED
from harness.results import CRASHED, HUNG, MISSING, OK, WRONG_ALLOCATOR, Case, Sample
from harness.workload import Workload

BENCH = Path(__file__).resolve().parents[1]
REFUSED = "cannot be preloaded"  # what the loader says, and goes on without the library
LEAST_TIMEOUT_S = 60


@dataclass(frozen=True)
class Bench:
    """What is needed to run workloads."""

    build: Path
    run: str = ""  # the run's id
    shrink: int = 1
    timeout_s: float | None = None  # instead of the workloads' own

    def program(self, workload: Workload) -> Path:
        """The program, or a real program's driver."""
        name = workload.argv[0]
        return BENCH / name if is_real(workload) else self.build / "bench/workloads" / name

    def limit_s(self, workload: Workload) -> float:
        """After how long a run counts as hanging."""
        return self.timeout_s or max(LEAST_TIMEOUT_S, workload.timeout_s / self.shrink)


def is_real(workload: Workload) -> bool:
    """Whether it is a driver that starts a real program."""
    return workload.argv[0].startswith("real/")


def take(bench: Bench, workload: Workload, case: Case, allocator: Allocator, repeat: int, check: bool) -> Sample:
    """One sample. With `check` it is also proven that `malloc` is the allocator's (which slows the start)."""
    blank = Sample(bench.run, repeat, case.workload, case.threads, allocator.name, OK)
    with tempfile.TemporaryDirectory(prefix="freeway-lab-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        command, environment = _command(bench, workload, case, allocator, folder, check)
        foreign = ForeignCpu()
        ended = launch(command, environment, bench.limit_s(workload), folder / "work")
        share = foreign.share()
        status, detail = _ending(ended, bench.limit_s(workload))
        if status != OK:
            return replace(blank, status=status, detail=_placeless(detail, bench, folder), foreign_cpu=share)
        try:
            line = _result_line(ended.stdout)
            used = line if is_real(workload) else json.loads((folder / "result").read_text())
        except (OSError, ValueError) as error:
            return replace(blank, status=CRASHED, detail=f"printed no result ({error})", foreign_cpu=share)
        library = allocator.library or libc()
        cpu_s = used.get("user_s", 0.0) + used.get("system_s", 0.0)
        fault = fault_of_mapping(bool(used.get("mapped")), cpu_s, allocator.library)
        if check:
            fault = fault or fault_of_bindings(folder / "bindings", library)
    if fault:
        return replace(blank, status=WRONG_ALLOCATOR, detail=fault, foreign_cpu=share)
    values = {k: v for k, v in {**used, **line}.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    values.pop("status", None)
    rss = tuple((at, kib) for at, kib in used.get("rss", ()))
    return replace(blank, values=values, checksum=str(line.get("checksum", "")), rss=rss, foreign_cpu=share)


def _command(
    bench: Bench, workload: Workload, case: Case, allocator: Allocator, folder: Path, check: bool
) -> tuple[list[str], dict[str, str]]:
    arguments = [word.replace("{threads}", str(case.threads)) for word in workload.argv[1:]]
    if bench.shrink > 1:
        arguments += ["--shrink", str(bench.shrink)]
    runner, bindings = bench.build / "bench/measured_run", folder / "bindings"
    environment = {**allocator.environment(), **workload.environment}
    if not is_real(workload):
        if check:
            environment.update(loader_variables(bindings))
        preload = str(allocator.library or "-")
        return [str(runner), str(folder / "result"), preload, str(bench.program(workload)), *arguments], environment
    environment = {k: v for k, v in environment.items() if k not in allocator.variables}
    environment |= {
        "LAB_PRELOAD": str(allocator.library or libc()),
        "LAB_VARIABLES": json.dumps(allocator.variables),
        "LAB_MEASURED_RUN": str(runner),
        "PYTHONPATH": str(BENCH),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if check:
        environment["LAB_BINDINGS"] = str(bindings)
    return [sys.executable, str(bench.program(workload)), *arguments], environment


def _placeless(text: str, bench: Bench, folder: Path) -> str:
    """What was said, without folders of this machine: a results file may be published."""
    for place in (folder, bench.build, ROOT):
        text = text.replace(f"{place}/", "")
    return text


def _ending(ended: Ended, limit_s: float) -> tuple[str, str]:
    """The status of a run by its end alone, and what there is to say."""
    said = " | ".join(line.strip() for line in ended.stderr.strip().splitlines()[-3:])[:400]
    if ended.hung:
        return HUNG, f"ended after {limit_s:.0f} s"
    if REFUSED in ended.stderr:
        return WRONG_ALLOCATOR, next(line.strip() for line in ended.stderr.splitlines() if REFUSED in line)
    if ended.status == NOT_INSTALLED:
        return MISSING, said
    if ended.status > 128:
        return CRASHED, ": ".join(filter(None, (signal_name(ended.status - 128), said)))
    if ended.status != 0:
        return CRASHED, ": ".join(filter(None, (f"exit status {ended.status}", said)))
    return OK, ""


def _result_line(text: str) -> dict[str, Any]:
    """The program's line: the last that is an object (a real program may have written before it)."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise ValueError("no line of JSON")
