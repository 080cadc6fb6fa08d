# SPDX-License-Identifier: MIT
#
# Python's own test-suite under the preload: `python_suite.py quick` a part of it in seconds, `python_suite.py long` the
# whole modules for dict, list, threading, multiprocessing and subprocess, which take minutes. With `malloc` as second
# word the interpreter's own small-object allocator is switched off, so that every object is a block of Freeway's.
#
# Every test must come out as it does without the preload. The suite is run without only for the tests that did not
# pass: most runs need no second one.
"""Python's test modules under the preload."""

from __future__ import annotations

import sys
from pathlib import Path

from preload import SOURCES, Failed, check, main, need, prove_preload, run

OBJECTS = ["test.test_dict", "test.test_list", "test.test_set", "test.test_json", "test.test_gc", "test.test_thread"]
QUICK = [
    *OBJECTS,
    "test.test_threading.ThreadTests",
    "test.test_subprocess.POSIXProcessTestCase",
    "test.test_multiprocessing_fork.WithProcessesTestProcess",
    "test.test_multiprocessing_fork.WithProcessesTestQueue",
    "test.test_multiprocessing_fork.WithThreadsTestPool",
]
LONG = [
    "test.test_dict",
    "test.test_list",
    "test.test_threading",
    "test.test_subprocess",
    "test.test_multiprocessing_fork",
    "test.test_bytes",
    "test.test_ctypes",
    "test.test_queue",
]
TIMEOUT_S = 900
# Tests that fail without the preload as well say nothing about it. A few may (they depend on the machine); many mean
# that the suite is not run as it wants to be, and then a pass would be worth little.
MAY_FAIL_ANYWAY = 3


def outcomes(python: str, names: list[str], folder: Path, preload: bool, env: dict[str, str]) -> dict[str, str]:
    """The outcome of each test by name. Failed if the interpreter itself went down."""
    file = folder / "outcomes"
    file.unlink(missing_ok=True)
    argv = [python, str(SOURCES / "unittest_outcomes.py"), str(file), *names]
    # The modules write below HOME and TMPDIR and expect a user's environment.
    env = {**env, "HOME": str(folder), "TMPDIR": str(folder)}
    ended = run(argv, preload=preload, cwd=folder, env=env, timeout=TIMEOUT_S)
    if ended.status != 0 or not file.exists():
        raise Failed(f"python ended with status {ended.status} while running {names}:\n{ended.err[-4000:]}")
    lines = file.read_text().splitlines()
    return {name: outcome for outcome, name in (line.split(" ", 1) for line in lines)}


def suite(folder: Path) -> None:
    """All chosen modules, in one interpreter."""
    python = need("python3", "python3")
    all_malloc = "malloc" in sys.argv[2:]
    modules = LONG if sys.argv[1] == "long" else OBJECTS if all_malloc else QUICK
    env = {"PYTHONMALLOC": "malloc"} if all_malloc else {}
    prove_preload([python, "-c", "import threading, json"], env=env)
    preloaded = outcomes(python, modules, folder, True, env)
    passed = sum(outcome == "ok" for outcome in preloaded.values())
    print(f"{passed} of {len(preloaded)} tests of Python's suite passed", flush=True)
    check(passed >= 100, "hardly any test ran: is libpython3.11-testsuite complete?")
    suspects = [name for name, outcome in preloaded.items() if outcome == "failed"]
    if suspects:
        plain = outcomes(python, suspects, folder, False, env)
        guilty = [name for name in suspects if plain.get(name) != "failed"]
        check(not guilty, f"fails under the preload only: {guilty}")
        check(len(suspects) <= MAY_FAIL_ANYWAY, f"{len(suspects)} tests fail without the preload too: {suspects[:20]}")
        print(f"fails without the preload too, so not counted: {suspects}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("quick", "long"):
        sys.exit("usage: python_suite.py quick|long [malloc]")
    main(suite)
