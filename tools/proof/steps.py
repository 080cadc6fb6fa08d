# SPDX-License-Identifier: MIT
"""What a full run consists of: calls of ctest in builds that are there already (`make prove` makes them)."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tools.proof.record import Run, Step, read_figures, read_junit

# Name, build, more arguments of ctest. Other projects' suites are left out: they prove nothing about interleavings, and
# `make test-programs` runs them.
STEPS = (
    ("tests and proofs", "release", ("-LE", "^programs$")),
    ("AddressSanitizer, UBSan", "asan", ("-LE", "^long$")),
    ("ThreadSanitizer, without rseq", "tsan", ("-LE", "^long$")),
    ("aarch64, emulated", "aarch64", ("-LE", "^long$")),
)


def machine() -> str:
    """The machine in one line."""
    cpus = len(os.sched_getaffinity(0))
    libc = " ".join(platform.libc_ver())
    return (
        f"{platform.machine()}, {cpus} CPU{'s' if cpus > 1 else ''}, {platform.system()} {platform.release()}, {libc}"
    )


def run(root: Path, output: Path, jobs: int, only: str | None) -> Run:
    """Runs all steps, or the one of the build `only`; figures and ctest's results are left in `output`."""
    output.mkdir(parents=True, exist_ok=True)
    figures = output / "figures.jsonl"
    figures.unlink(missing_ok=True)
    begun = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    steps = []
    for name, build, arguments in STEPS:
        if only not in (None, build):
            continue
        junit = output / f"{build}.xml"
        junit.unlink(missing_ok=True)
        print(f"== {name}", flush=True)
        start = time.monotonic()
        command = ["ctest", "--test-dir", f"build/{build}", "--output-on-failure", "--no-tests=error", "-j", str(jobs)]
        command += ["--output-junit", str(junit.resolve()), *arguments]
        environment = os.environ | {"FREEWAY_PROOF_FILE": str(figures.resolve())}
        status = subprocess.run(command, check=False, cwd=root, env=environment)  # the results say what failed
        step = Step(name, round(time.monotonic() - start, 1))
        if not junit.exists():
            sys.exit(f"tools.proof: ctest in build/{build} left no results (exit status {status.returncode})")
        read_junit(junit, step)
        steps.append(step)
    return Run(begun, machine(), steps, read_figures(figures))
