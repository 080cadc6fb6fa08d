# SPDX-License-Identifier: MIT
"""What a full run consists of: calls of ctest in builds that are there already (`make prove` makes them)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.harness.machine import commit
from bench.harness.machine import facts as machine_facts
from tools.proof.record import Run, Step, read_figures, read_junit

# What to call it on the command line: its name, the build, more arguments of ctest. Other projects' suites are left
# out: they prove nothing about interleavings, and `make test-programs` runs them.
STEPS = {
    "quick": ("tests", "release", ("-LE", "^(long|programs)$")),
    "long": ("long tests", "release", ("-L", "^long$", "-LE", "^programs$")),
    "debug": ("all assertions, little optimisation", "debug", ("-LE", "^(long|programs)$")),
    "asan": ("AddressSanitizer, UBSan", "asan", ("-LE", "^long$")),
    "tsan": ("ThreadSanitizer, without rseq", "tsan", ("-LE", "^long$")),
    "aarch64": ("aarch64, emulated", "aarch64", ("-LE", "^long$")),
}


def machine() -> str:
    """The machine in one line."""
    facts = machine_facts(Path("build/release"))
    cpus = f"{facts['cpus']} CPU{'s' if facts['cpus'] > 1 else ''}"
    return f"{facts['architecture']}, {cpus}, Linux {facts['kernel']}, {facts['libc']}"


def run(root: Path, output: Path, jobs: int, which: str) -> Run:
    """Runs one step; its figures and ctest's results are left in `output`, and all of it as `<which>.json`."""
    done = _ctest(root, output, jobs, which, which)
    done.save(output / f"{which}.json")
    return done


def run_again(root: Path, output: Path, jobs: int, which: str) -> Run:
    """Runs those tests of a step that failed when it was run last; what they say now replaces what they said."""
    if not (output / f"{which}.json").exists():
        sys.exit(f"tools.proof: {which} was not run yet ({output})")
    before = Run.load(output / f"{which}.json")
    if not before.failed:
        return before
    done = before.with_again(_ctest(root, output, jobs, which, f"{which}-again", before.failed))
    done.save(output / f"{which}.json")
    return done


def _ctest(root: Path, output: Path, jobs: int, which: str, stem: str, only: Sequence[str] = ()) -> Run:
    """Calls ctest for a step, or for some of its tests; what it leaves in `output` is called `stem`."""
    output.mkdir(parents=True, exist_ok=True)
    name, build, arguments = STEPS[which]
    figures, junit = output / f"{stem}.jsonl", output / f"{stem}.xml"
    for old in (figures, junit):
        old.unlink(missing_ok=True)
    begun = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    print(f"== {name}", flush=True)
    start = time.monotonic()
    command = ["ctest", "--test-dir", f"build/{build}", "--output-on-failure", "--no-tests=error", "-j", str(jobs)]
    command += ["--output-junit", str(junit.resolve()), *arguments]
    if only:
        command += ["-R", f"^({'|'.join(map(re.escape, only))})$"]
    environment = os.environ | {"FREEWAY_PROOF_FILE": str(figures.resolve())}
    status = subprocess.run(command, check=False, cwd=root, env=environment)  # the results say what failed
    step = Step(name, round(time.monotonic() - start, 1))
    if not junit.exists():
        sys.exit(f"tools.proof: ctest in build/{build} left no results (exit status {status.returncode})")
    read_junit(junit, step)
    return Run(begun, machine(), [step], read_figures(figures), commit())


def collect(output: Path) -> Run:
    """The latest of each step that was run, together."""
    runs = [Run.load(output / f"{which}.json") for which in STEPS if (output / f"{which}.json").exists()]
    if not runs:
        sys.exit(f"tools.proof: nothing was run yet ({output})")
    return Run(
        min(run.begun for run in runs),
        runs[0].machine,
        [step for run in runs for step in run.steps],
        [figure for run in runs for figure in run.figures],
        ", ".join(dict.fromkeys(run.commit for run in runs if run.commit)),
    )
