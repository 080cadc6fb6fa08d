# SPDX-License-Identifier: MIT
#
# measure.py: runs one command under one malloc and says what it used. The measuring itself is done by measured_run, a
# small program of the build (its head says why).
"""One measured run of a command under one malloc."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harness.allocators import libc

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FREEWAY_BUILD_DIR", ROOT / "build/release"))
END_TIMEOUT_S = 60


class DemoError(Exception):
    """The demonstration cannot go on; the message is for the user."""


@dataclass(frozen=True)
class Malloc:
    """A library to preload: None for whatever malloc the program has by itself."""

    name: str
    library: Path | None


@dataclass(frozen=True)
class Usage:
    """What a run used. Peak memory is that of the biggest single process."""

    wall: float
    cpu: float
    peak_rss_mib: float
    status: int = 0


def freeway_library() -> Path:
    """libfreeway.so of the build, or FREEWAY_LIB."""
    library = Path(os.environ.get("FREEWAY_LIB", BUILD / "libfreeway.so")).absolute()
    if not library.exists():
        raise DemoError(f"there is no {library}: `make` builds it")
    return library


def glibc_library() -> Path:
    """libc.so.6, to be preloaded for programs that are linked with another malloc: its malloc then comes first."""
    try:
        return libc()
    except FileNotFoundError as error:
        raise DemoError(f"cannot find {error}") from None


def command_line(malloc: Malloc, argv: Sequence[str], result: Path) -> list[str]:
    """The command in the hands of measured_run."""
    runner = BUILD / "bench/measured_run"
    if not runner.exists():
        raise DemoError(f"there is no {runner}: `make` builds it")
    return [str(runner), str(result), str(malloc.library or "-"), *argv]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Ours, without a preload or options of Freeway's that happen to be set, and `extra`."""
    kept = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "FREEWAY_STATS")}
    return {**kept, **extra}


def read_usage(result: Path) -> Usage:
    """What measured_run wrote."""
    if not result.exists() or result.stat().st_size == 0:
        raise DemoError("the run was cut short")
    used: dict[str, Any] = json.loads(result.read_text())
    return Usage(used["wall_s"], used["user_s"] + used["system_s"], used["rss_peak_kib"] / 1024, used["status"])


def measure(malloc: Malloc, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path) -> Usage:
    """Runs a command to its end, quietly; DemoError if it fails."""
    with tempfile.TemporaryDirectory(prefix="freeway-run-") as folder:
        result = Path(folder) / "result"
        done = subprocess.run(
            command_line(malloc, argv, result),
            env=environment(env or {}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or "cannot be preloaded" in done.stderr:
            said = (done.stdout + done.stderr)[-2000:]
            raise DemoError(f"{' '.join(argv)} failed under {malloc.name} (status {done.returncode}):\n{said}")
        return read_usage(result)


def measure_openly(malloc: Malloc, argv: Sequence[str], env: Mapping[str, str]) -> Usage:
    """Runs a command with our own input and outputs; whatever its exit status."""
    with tempfile.TemporaryDirectory(prefix="freeway-run-") as folder:
        result = Path(folder) / "result"
        subprocess.run(command_line(malloc, argv, result), env=environment(env), check=False)
        return read_usage(result)


@dataclass
class Server:
    """A running server and, once it has ended, what it used."""

    process: subprocess.Popen[str]
    usage: Usage | None = None


@contextlib.contextmanager
def measured_server(
    malloc: Malloc, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, errors: IO[str]
) -> Iterator[Server]:
    """Starts a server; at the end of the block it is told to end (SIGTERM), and its usage is filled in."""
    result = cwd / f"usage-{malloc.name}"
    result.unlink(missing_ok=True)
    command = command_line(malloc, argv, result)
    process = subprocess.Popen(
        command,
        env=environment(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        text=True,
    )
    server = Server(process)
    try:
        yield server
    finally:
        process.terminate()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise DemoError(f"{argv[0]} did not end within {END_TIMEOUT_S} s") from None
    server.usage = read_usage(result)
