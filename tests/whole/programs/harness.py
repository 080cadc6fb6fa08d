# SPDX-License-Identifier: MIT
#
# The tests of real programs must be able to fail: this one gives their harness a preload that does not take hold, a
# program whose output differs, one that crashes, one that hangs, and one that is missing.
"""Tests of preload.py itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from preload import Failed, Skipped, check, main, need, prove_preload, require_same, run, same


def must_raise(kind: type[Exception], what: str, call: Callable[[], object]) -> str:
    """The message of the exception that `call` must raise."""
    try:
        call()
    except kind as raised:
        return str(raised)
    raise Failed(f"not noticed: {what}")


def preload_without_malloc_is_noticed(folder: Path) -> None:
    """A library that has no malloc is preloaded in place of Freeway."""
    library = os.environ["FREEWAY_LIB"]
    (folder / "nothing.c").write_text("int freeway_nothing;\n")
    os.environ["FREEWAY_LIB"] = str(folder / "nothing.so")
    try:
        built = ["gcc", "-shared", "-o", str(folder / "nothing.so"), str(folder / "nothing.c")]
        (folder / "nothing.so").touch()
        check(run(built, preload=False).status == 0, "gcc failed")
        said = must_raise(Failed, "a preload without malloc", lambda: prove_preload([need("perl", "perl"), "-e", "1"]))
        check("instead of" in said, said)
    finally:
        os.environ["FREEWAY_LIB"] = library


def static_program_is_noticed(folder: Path) -> None:
    """No preload can reach a program that is linked statically."""
    (folder / "static.c").write_text("int main(void) { return 0; }\n")
    program = str(folder / "static")
    check(run(["gcc", "-static", "-o", program, str(folder / "static.c")], preload=False).status == 0, "gcc failed")
    must_raise(Failed, "a static program", lambda: prove_preload([program]))


def missing_child_is_noticed(_: Path) -> None:
    """A process that should have run under the preload did not run."""
    must_raise(Failed, "a process that never was", lambda: prove_preload([need("bash", "bash"), "-c", ":"], ["awk"]))


def differences_are_noticed(_: Path) -> None:
    """Output, error output, exit status and hanging."""
    shell = need("bash", "bash")
    must_raise(Failed, "different output", lambda: same([shell, "-c", "echo ${LD_PRELOAD:-none}"]))
    must_raise(Failed, "different error output", lambda: same([shell, "-c", "echo ${LD_PRELOAD:-none} >&2"]))
    must_raise(Failed, "an exit status", lambda: same([shell, "-c", 'test -z "$LD_PRELOAD"']))
    must_raise(Failed, "a crash", lambda: same([shell, "-c", "kill -SEGV $$"]))
    must_raise(Failed, "hanging", lambda: run([shell, "-c", "sleep 60"], preload=True, timeout=0.2))
    must_raise(Failed, "unequal texts", lambda: require_same("a text", "a\nb", "a\nc"))
    same([shell, "-c", "echo the same; echo the same >&2"])


def missing_programs_fail_or_skip(_: Path) -> None:
    """A program of a listed package must be there; another may be missing."""
    must_raise(Failed, "a missing listed program", lambda: need("no-such-program", "redis-server"))
    must_raise(Skipped, "a missing unlisted program", lambda: need("no-such-program", "no-such-package"))


if __name__ == "__main__":
    main(
        preload_without_malloc_is_noticed,
        static_program_is_noticed,
        missing_child_is_noticed,
        differences_are_noticed,
        missing_programs_fail_or_skip,
    )
