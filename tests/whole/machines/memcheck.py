# SPDX-License-Identifier: MIT
#
# Programs under valgrind's memcheck with Freeway as their malloc: memcheck says no error, the program says the same as
# without it. memcheck is told to leave malloc alone (--soname-synonyms), so that Freeway's own runs in its machine:
# one thread at a time, and no restartable sequences. Argument: short or long.
"""Freeway under memcheck."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

WHOLE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(WHOLE.parent / "support"), str(WHOLE / "programs")]
from preload import Outcome, check, library, main, need, run, succeed  # noqa: E402
from proof import proof  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LONG = sys.argv[1:] == ["long"]
FOUND = 99  # the exit status that memcheck gives when it found something
OPTIONS = ("--soname-synonyms=somalloc=nouserintercepts", f"--error-exitcode={FOUND}", "--leak-check=no")


def memcheck(argv: Sequence[str], *, preload: bool, stdin: str = "", cwd: Path | None = None) -> Outcome:
    """Runs `argv` under memcheck. Its own words are taken out of the error output."""
    valgrind = need("valgrind", "valgrind")
    return run([valgrind, *OPTIONS, *argv], preload=preload, stdin=stdin, cwd=cwd, timeout=500)


def errors_of(outcome: Outcome) -> int:
    """The places at which memcheck found something, in the process and its children."""
    counts = re.findall(r"ERROR SUMMARY: \d+ errors from (\d+) contexts", outcome.err)
    check(bool(counts), f"memcheck gave no summary:\n{outcome.err[-2000:]}")
    return sum(int(count) for count in counts) - mistaken(outcome)


def mistaken(outcome: Outcome) -> int:
    """Of these, the ones where memcheck errs: accesses of memory that, as it says itself, may be read and written.

    After mremap into a reservation valgrind 3.19 takes the new part to be as inaccessible as another mapping was: it
    looks at a segment by an entry that has moved. With malloc left alone, memcheck takes nothing else away. The
    engines that grow blocks of 64 KiB so are named here; no other may come by such an error.
    """
    found = outcome.err.count("is in a rw- anonymous segment")
    return found if os.environ.get("FREEWAY_TEST_ENGINE") in ("michael", "hmalloc") else 0


def require_clean(name: str, argv: Sequence[str], *, preload: bool = True, stdin: str = "") -> None:
    """The program ends as it does without memcheck and Freeway, and memcheck finds nothing."""
    plain = succeed(argv, preload=False, stdin=stdin)
    checked = memcheck(argv, preload=preload, stdin=stdin)
    errors = errors_of(checked)
    said = f"{name}: {errors} errors, exit status {checked.status}\n{checked.out[-500:]}\n{checked.err[-4000:]}"
    check(errors == 0 and checked.status == (FOUND if mistaken(checked) > 0 else 0), said)
    check(checked.out == plain.out, f"{name}: the output differs")
    proof("machines", "under memcheck", "programs", 1)
    proof("machines", "under memcheck", "errors", errors)


def compiled(folder: Path, *more: str, name: str = "every_function") -> str:
    """The test program, linked with `more`."""
    program = str(folder / name)
    flags = ["-O1", "-g", "-pthread", "-fno-builtin", f"-I{ROOT}/include"]
    succeed([need("gcc", "g++"), *flags, "-o", program, str(HERE / "every_function.c"), *more], preload=False)
    return program


def what_is_planted_is_found(folder: Path) -> None:
    """A choice that depends on memory that was never written: memcheck is at work."""
    outcome = memcheck([compiled(folder), "planted"], preload=True)
    check(outcome.status == FOUND and errors_of(outcome) > 0, f"not found:\n{outcome.err[-2000:]}")


def freeway_serves(folder: Path) -> None:
    """It is Freeway whose malloc runs there, not memcheck's."""
    statistics = folder / "statistics.json"
    program = compiled(folder)
    os.environ["FREEWAY_STATS"] = f"json:{statistics}"
    try:
        outcome = memcheck([program], preload=True)
    finally:
        del os.environ["FREEWAY_STATS"]
    check(outcome.status == 0, outcome.err[-2000:])
    check("total heap usage: 0 allocs" in outcome.err, f"memcheck replaced malloc:\n{outcome.err[-2000:]}")
    said = json.loads(statistics.read_text())
    check(said["superblocks"] > 0, f"Freeway had nothing to do: {said}")


def every_function(folder: Path) -> None:
    """Each function of the family, by four threads, in a signal handler and in a forked child."""
    require_clean("every_function", [compiled(folder)])


def linked_statically(folder: Path) -> None:
    """The same with the static library."""
    static = library().parent / "libfreeway.a"
    if not library().name.startswith("libfreeway.so"):
        return  # the papers' engines are shared libraries only
    require_clean("linked statically", [compiled(folder, str(static), name="static")], preload=False)


def sqlite(_: Path) -> None:
    """A database in memory."""
    rows = 3000 if LONG else 300
    script = (
        "create table t(a integer primary key, b text);\n"
        f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})\n"
        "insert into t select i, printf('%.*c', i % 500, 'x') from n;\n"
        "create index b on t(b); select count(*), sum(length(b)) from t; pragma integrity_check;\n"
    )
    require_clean("sqlite3", [need("sqlite3", "sqlite3"), ":memory:"], stdin=script)


def perl(_: Path) -> None:
    """Strings, hashes, sorting."""
    script = (
        "my %h; for my $i (1..4000) { $h{$i * 7919 % 5003} .= 'x' x ($i % 60); }"
        "print join(',', map { length $h{$_} } sort { $a <=> $b } keys %h), qq(\\n);"
    )
    require_clean("perl", [need("perl", "perl"), "-e", script])


def git(folder: Path) -> None:
    """Hashing and packing."""
    program = need("git", "git")
    data = folder / "data"
    data.write_text("".join(f"line {i * i % 1009}\n" for i in range(5000)))
    require_clean("git", [program, "hash-object", str(data)])


if __name__ == "__main__":
    short = (what_is_planted_is_found, freeway_serves, every_function)
    main(*short, *((linked_statically, sqlite, perl, git) if LONG else ()))
