# SPDX-License-Identifier: MIT
#
# real_program.py: what the drivers of bench/real use. A driver is started without the allocator under test and gives it
# to the program it measures:
#
#   from harness.real_program import report, run
#   used = run(["/usr/bin/sqlite3", "test.db"], input_text=script)      # under the allocator, through measured_run
#   report(ops=1000, used=used, checksum=used.stdout_digest())
#
# The laboratory says in the environment what to do; by hand, without these variables, everything runs under glibc:
#   LAB_PRELOAD       library to preload; libc.so.6 for glibc, since some programs are linked with another malloc
#   LAB_VARIABLES     JSON object: environment variables that go with the allocator
#   LAB_MEASURED_RUN  the program measured_run
#   LAB_BINDINGS      where the loader of the measured program says to which library `malloc` went (check runs only)
"""Runs real programs under the allocator that the laboratory asks for, and prints a driver's result."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.loaded import loader_variables

NOT_INSTALLED = 77
END_TIMEOUT_S = 60


@dataclass
class Used:
    """What one measured command used, and what it wrote."""

    values: dict[str, float] = field(default_factory=dict)  # wall_s, user_s, system_s, rss_peak_kib, minor_faults, ...
    rss: list[list[float]] = field(default_factory=list)  # [seconds, KiB] over time
    stdout: str = ""
    stderr: str = ""
    status: int = 0

    def stdout_digest(self) -> str:
        """A checksum of the output, for programs whose output depends on the work only."""
        return hashlib.sha256(self.stdout.encode()).hexdigest()[:16]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a program, without the preload (measured_run sets that)."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LAB_", "FREEWAY_")) and k != "LD_PRELOAD"}
    return {**kept, **json.loads(os.environ.get("LAB_VARIABLES", "{}")), **(extra or {})}


def _measured_environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """That of the measured program itself, whose loader may have to report."""
    bindings = os.environ.get("LAB_BINDINGS")
    return {**environment(extra), **(loader_variables(Path(bindings)) if bindings else {})}


def command_line(argv: Sequence[str], result: Path) -> list[str]:
    """The command in the hands of measured_run."""
    runner = os.environ.get("LAB_MEASURED_RUN")
    if runner is None:
        runner = str(Path(__file__).resolve().parents[2] / "build/release/bench/measured_run")
    return [runner, str(result), os.environ.get("LAB_PRELOAD") or "-", *argv]


def read_usage(result: Path) -> Used:
    """What measured_run wrote about a command that has ended."""
    told: dict[str, Any] = json.loads(result.read_text())
    points, status = told.pop("rss", []), int(told.pop("status"))
    return Used({k: v for k, v in told.items() if isinstance(v, int | float)}, points, status=status)


def run(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None, input_text: str = ""
) -> Used:
    """Runs a command to its end under the allocator. A failing command ends the driver with its status."""
    with tempfile.TemporaryDirectory(prefix="freeway-lab-") as folder:
        result = Path(folder) / "result"
        done = subprocess.run(
            command_line(argv, result),
            env=_measured_environment(env),
            cwd=cwd,
            input=input_text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            fail(f"{' '.join(argv)} ended with status {done.returncode}:\n{done.stderr[-2000:]}", done.returncode)
        used = read_usage(result)
    used.stdout, used.stderr = done.stdout, done.stderr
    sys.stderr.write("".join(line for line in used.stderr.splitlines(True) if "cannot be preloaded" in line))
    return used


@contextlib.contextmanager
def server(argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Iterator[Used]:
    """A server under the allocator while the block runs; then SIGTERM ends it, and its Used is filled in."""
    used = Used()
    with tempfile.TemporaryDirectory(prefix="freeway-lab-") as folder:
        result = Path(folder) / "result"
        with (Path(folder) / "stderr").open("w+") as errors:
            process = subprocess.Popen(
                command_line(argv, result),
                env=_measured_environment(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            try:
                yield used
            finally:
                process.terminate()
                try:
                    process.wait(END_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            errors.seek(0)
            used.stderr = errors.read()
        if process.returncode not in (0, 143):
            fail(f"{argv[0]} ended with status {process.returncode}:\n{used.stderr[-2000:]}", process.returncode)
        ended = read_usage(result)
        used.values, used.rss, used.status = ended.values, ended.rss, ended.status


def report(*, ops: float, used: Used, checksum: str = "", **extras: float) -> None:
    """Prints the driver's one line: `ops` operations took what `used` says; extras are further figures."""
    values = used.values
    cpu = values.get("user_s", 0.0) + values.get("system_s", 0.0)
    line = {"ops": ops, "seconds": values.get("wall_s", 0.0), "cpu_seconds": cpu, "checksum": checksum}
    print(json.dumps({**line, **values, **extras, "rss": used.rss}))


def missing(what: str) -> None:
    """Ends the driver: the real program is not installed."""
    fail(what, NOT_INSTALLED)


def fail(what: str, status: int = 1) -> None:
    """Ends the driver with a message."""
    print(what, file=sys.stderr)
    sys.exit(status if 0 < status < 256 else 1)
