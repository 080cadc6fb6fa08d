# SPDX-License-Identifier: MIT
#
# mimalloc.py: mimalloc's tests of its interface (test-api.c, test-api-fill.c) and its stress test, as far as they speak
# of any malloc: mimalloc.h gives them the standard names. Cut out are those of heaps, of offsets in alignments, of
# allocators for C++, and of a realloc that zeroes. The alignments are mimalloc's: up to 128 MiB. test-wrong.c, which
# errs on purpose, and main-override*, which check nothing, are not run.
"""mimalloc's own tests, with the standard names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from suite import FAILED, PASSED, Outcomes, Suite
from suite import run as run_suite  # it says where the others are

# isort: split
from debian_source import fetch
from emulated import require_tools
from preload import run, succeed

HERE = Path(__file__).resolve().parent
API = ("test-api", "test-api-fill")
STRESS = "test-stress"
# Threads, load and rounds: mimalloc's own, more of each thread, one thread alone.
STRESSES = (("32", "25", "50"), ("8", "100", "30"), ("1", "400", "30"))
FOREIGN = re.compile(r"mi_heap_|test_heap|test_stl|_aligned_at|mi_rezalloc|mi_recalloc|mi_calloc_aligned")
TESTS = re.compile(r'^  CHECK_BODY\("[^"]*"\) \{\n.*?^  \};?\n|^  CHECK\([^\n]*\n', re.DOTALL | re.MULTILINE)
FUNCTIONS = re.compile(r"^bool test_\w+\(\) \{\n.*?^\}\n", re.DOTALL | re.MULTILINE)


def applicable(source: str) -> str:
    """The tests of any malloc among those of a file."""
    return FUNCTIONS.sub("", TESTS.sub(lambda test: "" if FOREIGN.search(test[0]) else test[0], source))


def build(work: Path) -> None:
    """One program of each file."""
    require_tools("gcc")
    done = work / "built"
    if done.exists():
        return
    tests = fetch(work, "mimalloc", kept=("test",)) / "test"
    headers = work / "headers"
    headers.mkdir(exist_ok=True)
    for name in ("mimalloc.h", "mimalloc-types.h"):
        (headers / name).unlink(missing_ok=True)
        (headers / name).symlink_to(HERE / "mimalloc.h")
    compiler = ["gcc", "-std=gnu11", "-O2", "-g", "-w", "-fno-builtin", "-D_GNU_SOURCE", "-DUSE_STD_MALLOC", "-pthread"]
    compiler += [f"-I{headers}", f"-I{tests}"]
    for name in (*API, STRESS):
        chosen = work / f"{name}.c"
        chosen.write_text(applicable((tests / f"{name}.c").read_text()))
        succeed([*compiler, str(chosen), "-o", str(work / name)], preload=False)
    done.touch()


def outcomes(work: Path, preload: bool, _names: Sequence[str] | None) -> Outcomes:
    """All of them: they take a minute."""
    found: Outcomes = {}
    for name in API:
        said = run([str(work / name)], preload=preload, cwd=work).err
        for test, verdict in re.findall(r"^test: (.+?)\.\.\.  \s*(ok|FAILED)", said, re.MULTILINE):
            found[f"{name}: {test}"] = PASSED if verdict == "ok" else FAILED
    for numbers in STRESSES:
        status = run([str(work / STRESS), *numbers], preload=preload, cwd=work, timeout=600).status
        found[f"{STRESS} {' '.join(numbers)}"] = PASSED if status == 0 else FAILED
    return found


if __name__ == "__main__":
    run_suite(Suite("mimalloc", build, outcomes, 33, lambda work: [str(work / STRESS), "2", "1", "1"]))
