# SPDX-License-Identifier: MIT
#
# oneTBB's conformance tests: containers, flow graphs, task groups and pipelines that many threads fill and empty. It is
# the C++ project here because its threads allocate and free each other's blocks all the time, and because its tests are
# one file each, which six minutes of a core compile. LLVM's unit tests are too large: hours.
#
# The tests are compiled against Debian's library, of which a copy is used: beside the copy there is no libtbbmalloc, so
# that oneTBB asks malloc for all its memory.
#
# Left out: the tests that are not of the interface (test/tbb), as many again, and those of its own malloc.
"""oneTBB's conformance tests under Freeway."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from suite import FAILED, PASSED, Outcomes, Suite, run  # isort: skip  (it says where the others are)
import preload
from debian_source import fetch
from emulated import MissingError, output_of, require_tools

WANTED = ("include", "src", "test")
LIBRARY = "libtbb.so.12"
TIMEOUT_S = 600


def build(work: Path) -> None:
    """A program for each file of tests."""
    require_tools("g++")
    source = fetch(work, "onetbb", kept=WANTED)
    found = re.search(rf"{re.escape(LIBRARY)} .*=> (\S+)", output_of(["/sbin/ldconfig", "-p"], work))
    if found is None:
        raise MissingError(f"{LIBRARY} missing (Debian package libtbb12)")
    for folder in ("library", "programs"):
        (work / folder).mkdir(exist_ok=True)
    copy = work / "library" / LIBRARY
    copy.write_bytes(Path(found[1]).read_bytes())
    options = ["-std=c++17", "-O1", "-w", f"-I{source / 'include'}", f"-I{source}", f"-I{source / 'test'}", "-pthread"]

    def compile_test(file: Path) -> None:
        made, program = work / f"{file.stem}.new", work / "programs" / file.stem
        if not program.exists():
            output_of(["g++", *options, file, copy, f"-Wl,-rpath,{copy.parent}", "-ldl", "-o", made], work)
            made.rename(program)

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        list(workers.map(compile_test, sorted((source / "test/conformance").glob("conformance_*.cpp"))))


def cases_of(program: Path, preloaded: bool) -> Outcomes:
    """What a program's tests say, by name. It writes that at its end: nothing where it does not come to it."""
    status = None
    try:
        outcome = preload.run([str(program), "--reporters=junit"], preload=preloaded, timeout=TIMEOUT_S)
        status = outcome.status
        report = ElementTree.fromstring(outcome.out)
    except (preload.Failed, ElementTree.ParseError) as fault:
        print(f"  {program.name} did not end well (status {status}): {str(fault)[-500:]}", flush=True)
        return {}
    found: Outcomes = {}
    for case in report.iter("testcase"):
        name = f"{program.name}: {case.get('name')}"
        failed = any(case.find(kind) is not None for kind in ("failure", "error"))
        found[name] = FAILED if failed or found.get(name) == FAILED else PASSED
    return found


def outcomes(work: Path, preloaded: bool, names: Sequence[str] | None) -> Outcomes:
    """The programs one after the other: each has threads of its own."""
    together: Outcomes = {}
    for program in sorted((work / "programs").iterdir()):
        if names is None or any(name.startswith(f"{program.name}: ") for name in names):
            together |= cases_of(program, preloaded)
    return together


def proves(work: Path) -> list[str]:
    """The program that asks oneTBB for memory most directly."""
    return [str(work / "programs/conformance_allocators")]


if __name__ == "__main__":
    run(Suite("onetbb", build, outcomes, 400, proves))
