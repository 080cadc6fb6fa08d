# SPDX-License-Identifier: MIT
#
# preload.py: what the tests of real programs share. A test runs a program without and with FREEWAY_LIB preloaded and
# requires the same exit status and the same output, byte for byte, unless it says which parts may differ (durations).
#
# That proves nothing if the preload silently did not happen, so each test also proves that it took hold, by the
# loader's own account (LD_DEBUG=bindings): in every process named, `malloc` was bound to FREEWAY_LIB and to nothing
# else. Servers are looked up in /proc/PID/maps as well.
#
# Exit status: 0 passed, 1 failed, 77 skipped (the program is not installed, and scripts/packages.txt, whose packages
# `make test` installs, does not list it).
"""Runs real programs with and without Freeway and compares."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SKIPPED = 77
SOURCES = Path(__file__).resolve().parent / "sources"
ROOT = Path(__file__).resolve().parents[3]
# Debian's programs, not those of a version manager in front of them: these are what packages.txt installs.
SEARCH_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
DIFF_LINES = 40
Normalise = Callable[[str], str]


class Failed(Exception):  # noqa: N818  (read as a sentence: raise Failed("..."))
    """A test failed; the message says how."""


class Skipped(Exception):  # noqa: N818
    """A program is not there and need not be."""


@dataclass(frozen=True)
class Outcome:
    """What a program left behind."""

    status: int
    out: str
    err: str


def check(holds: bool, message: str) -> None:
    """Fails the test with `message` unless `holds`."""
    if not holds:
        raise Failed(message)


def library() -> Path:
    """The library under test."""
    name = os.environ.get("FREEWAY_LIB", "")
    if not name or not Path(name).is_file():
        raise Failed(f"FREEWAY_LIB must name the library to preload; it is '{name}'")
    # Not resolved: the loader reports the name that it was given.
    return Path(name).absolute()


def environment(preload: bool, extra: dict[str, str] | None = None) -> dict[str, str]:
    """A small fixed environment, so that both runs and all machines see the same, with or without the library."""
    variables = {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "HOME": "/nonexistent", "TZ": "UTC", "TERM": "dumb"}
    if preload:
        variables |= {k: v for k, v in os.environ.items() if k.startswith("FREEWAY_") and k != "FREEWAY_LIB"}
        variables["LD_PRELOAD"] = str(library())
    return variables | (extra or {})


def need(program: str, package: str) -> str:
    """The path of `program`. Missing: a failure where packages.txt promises it, else the test is skipped."""
    path = shutil.which(program, path=SEARCH_PATH)
    if path:
        return path
    lines = [line.split() for line in (ROOT / "scripts/packages.txt").read_text().splitlines()]
    if any(line[:1] in (["build"], ["test"], ["programs"]) and line[1] == package for line in lines):
        raise Failed(f"{program} is not installed, though scripts/packages.txt lists its package {package}")
    raise Skipped(f"{program} (Debian package {package}) is not installed")


def run(
    argv: Sequence[str],
    *,
    preload: bool,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdin: str = "",
    timeout: float = 120,
) -> Outcome:
    """Runs a program to its end. On a timeout it and all it started are killed and the test fails."""
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=environment(preload, env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(stdin.encode(), timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        how = "with" if preload else "without"
        text = (out + err).decode(errors="replace")
        raise Failed(f"{' '.join(argv)} ({how} preload): still running after {timeout} s\n{text[-2000:]}") from None
    return Outcome(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def succeed(argv: Sequence[str], **options: object) -> Outcome:
    """`run`, and the exit status must be 0."""
    outcome = run(argv, **options)  # type: ignore[arg-type]
    check(
        outcome.status == 0,
        f"{' '.join(argv)}: exit status {outcome.status} with {options}\n{outcome.out[-2000:]}{outcome.err[-2000:]}",
    )
    return outcome


def require_same(what: str, plain: str, preloaded: str) -> None:
    """Fails with the difference, if there is one."""
    if plain == preloaded:
        return
    lines = difflib.unified_diff(plain.splitlines(), preloaded.splitlines(), "without", "with preload", lineterm="")
    raise Failed(f"{what} differs:\n" + "\n".join(list(lines)[:DIFF_LINES]))


def same(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdin: str = "",
    timeout: float = 120,
    may_differ: Normalise = str,
) -> Outcome:
    """Runs without, then with the preload; both must succeed and say the same. Returns the preloaded outcome."""
    plain, preloaded = (
        succeed(argv, preload=preload, cwd=cwd, env=env, stdin=stdin, timeout=timeout) for preload in (False, True)
    )
    require_same(f"stdout of {argv[0]}", may_differ(plain.out), may_differ(preloaded.out))
    require_same(f"stderr of {argv[0]}", may_differ(plain.err), may_differ(preloaded.err))
    return preloaded


def prove_preload(
    argv: Sequence[str],
    processes: Sequence[str] = (),
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdin: str = "",
) -> None:
    """Runs `argv` preloaded and requires that in every process it made malloc was bound to the library alone.

    `processes`: names of executables that must be among them (cc1plus below g++); the program itself always must.
    """
    ours = str(library())
    with tempfile.TemporaryDirectory(prefix="freeway-bindings-") as folder:
        # Bound at start (LD_BIND_NOW), so that a program that never gets to its first malloc is seen too.
        debug = {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": f"{folder}/of", "LD_BIND_NOW": "1"}
        succeed(argv, preload=True, cwd=cwd, env={**(env or {}), **debug}, stdin=stdin)
        seen: set[str] = set()
        pattern = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(?:malloc|free)'")
        files = sorted(Path(folder).iterdir())
        for file in files:
            text = file.read_text(errors="replace")
            bindings = pattern.findall(text)
            seen |= {Path(name).name for name in re.findall(r"binding file (\S+) \[", text)}
            # A program that takes malloc's address has an entry for it (a file without .so), bound to ours in turn.
            forwarders = {file for file, target in bindings if target == ours and ".so" not in Path(file).name}
            strangers = {target for _, target in bindings if target != ours} - forwarders
            check(not strangers, f"{argv[0]}: malloc or free is bound to {sorted(strangers)} instead of {ours}")
            check(bool(bindings), f"{argv[0]}: a process bound no malloc at all; the preload did not take hold")
    check(bool(files), f"{argv[0]}: no process reported; is it linked statically?")
    for name in (Path(argv[0]).name, *processes):
        aliases = {name, Path(shutil.which(name, path=SEARCH_PATH) or name).resolve().name}
        check(bool(aliases & seen), f"{argv[0]}: no process of {name} was seen under the preload, only {sorted(seen)}")


def in_maps(pid: int) -> bool:
    """Whether the library is mapped in a running process."""
    return str(library().resolve()) in Path(f"/proc/{pid}/maps").read_text()


def main(*tests: Callable[[Path], None]) -> None:
    """Runs the tests, each in a fresh folder, and exits with the status for ctest. That folder is also where programs
    start that are given no other: what they leave behind goes with it."""
    for name in ("FREEWAY_LIB", "FREEWAY_COMMAND", "FREEWAY_BUILD_DIR"):
        if value := os.environ.get(name):
            os.environ[name] = str(Path(value).absolute())
    started_in = Path.cwd()
    mode = {"1": "rseq", "0": "no rseq"}.get(os.environ.get("FREEWAY_RSEQ", ""), "default mode")
    print(f"preloading {os.environ.get('FREEWAY_LIB')} ({mode})", flush=True)
    failures = 0
    skips = 0
    for test in tests:
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="freeway-programs-", ignore_cleanup_errors=True) as folder:
                os.chdir(folder)
                try:
                    test(Path(folder))
                finally:
                    os.chdir(started_in)
            verdict = "ok"
        except Skipped as reason:
            verdict, skips = f"skipped: {reason}", skips + 1
        except Failed as reason:
            verdict, failures = f"FAILED: {reason}", failures + 1
        except Exception:  # a broken test counts as a failure
            verdict, failures = f"FAILED: {traceback.format_exc()}", failures + 1
        print(f"{test.__name__} ({time.monotonic() - began:.1f} s): {verdict}", flush=True)
    sys.exit(1 if failures else SKIPPED if skips and skips == len(tests) else 0)
