# SPDX-License-Identifier: MIT
#
# sqlite.py: SQLite's own tests, of Debian's source: what SQLite calls `veryquick` (300,000 tests in 1,100 scripts:
# all that is fast), those with threads, and those of failing allocations. The last need a build whose SQLite counts its
# allocations and lets the n-th fail (SQLITE_MEMDEBUG): malloc itself never fails there, but is left as after a failure.
#
# No lookaside, as in Debian's library: each small block of SQLite is a call of malloc.
"""SQLite's own tests."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from suite import FAILED, PASSED, Outcomes, Suite
from suite import run as run_suite  # it says where the others are

# isort: split
from debian_source import fetch
from emulated import require_tools
from preload import run, succeed

# Each in a folder of its own: a script takes what stands beside its own interpreter for older versions.
FIXTURES = {"plain": "", "memdebug": "-DSQLITE_MEMDEBUG"}
FAULTS = ("malloc*.test", "fkey_malloc.test", "vtab_err.test")
# Fixture, SQLite's name for the choice, scripts (all if there are none).
RUNS = (
    ("plain", "veryquick", ()),
    ("plain", "threads", ()),
    ("memdebug", "full", FAULTS),
)
# A script that ends the interpreter when root runs it.
VARIABLES = {"QUICKTEST_OMIT": r"^attach[.]test$"}
TIMEOUT_S = 3600
# What depends on the sizes of blocks: in names, memory in use, and how often an allocation was made to fail.
SIZES = re.compile(r"\(mu=\d+\)$|(?<=[it]ent\.)\d+$")


def build(work: Path) -> None:
    """The interpreters of the tests, from one generated source."""
    require_tools("gcc", "make", "tclsh")
    done = work / "built"
    if done.exists():
        return
    source = fetch(work, "sqlite3")
    made = work / "made"
    made.mkdir(exist_ok=True)
    succeed(
        [str(source / "configure"), "--enable-all", "--with-tcl=/usr/lib/tcl8.6"], preload=False, cwd=made, timeout=900
    )
    for name, flags in FIXTURES.items():
        (made / "testfixture").unlink(missing_ok=True)
        options = f"CFLAGS=-O1 -w -DSQLITE_OMIT_LOOKASIDE {flags}"
        succeed(["make", "testfixture", options], preload=False, cwd=made, timeout=1800)
        (work / name).mkdir(exist_ok=True)
        (made / "testfixture").rename(work / name / "testfixture")
    done.touch()


def result_of(database: Path, configuration: str) -> Outcomes:
    """What the tests' driver has noted: the whole output of each script. One that did not end has none."""
    found: Outcomes = {}
    connection = sqlite3.connect(database)
    for path, output in connection.execute("SELECT filename, output FROM script WHERE output IS NOT NULL"):
        script = f"{configuration} {Path(path).name}"
        for verdict, pattern in ((PASSED, r"^(.+)\.\.\. Ok$"), (FAILED, r"^! (\S+) expected:")):
            for test in re.findall(pattern, output, re.MULTILINE):
                found[f"{script}: {SIZES.sub('', test)}"] = verdict
        found[f"{script} ends"] = PASSED
    connection.close()
    return found


def outcomes(work: Path, preload: bool, names: Sequence[str] | None) -> Outcomes:
    """All runs, or the scripts that have the tests `names`."""
    found: Outcomes = {}
    for fixture, configuration, chosen in RUNS:
        scripts = chosen
        if names is not None:
            own = (name for name in names if name.startswith(f"{configuration} "))
            scripts = tuple(sorted({re.split(r"[: ]", name)[1] for name in own}))
            if not scripts:
                continue
        place = work / "run"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        argv = [str(work / fixture / "testfixture"), str(work / "source/test/testrunner.tcl"), "--jobs", "2"]
        argv += [configuration, *scripts]
        run(argv, preload=preload, cwd=place, env=VARIABLES, timeout=TIMEOUT_S)  # its status tells of failures, too
        found |= result_of(place / "testrunner.db", configuration)
    return found


def proves(work: Path) -> list[str]:
    """The interpreter of the tests, with nothing to do."""
    return [str(work / "plain/testfixture"), "/dev/null"]


if __name__ == "__main__":
    run_suite(Suite("sqlite", build, outcomes, 290_000, proves))
