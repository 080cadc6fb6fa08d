# SPDX-License-Identifier: MIT
"""Which system calls each exported function may make: by_function.txt, which GUARANTEES.md cites.

by_function.py PROGRAM           fails if a function makes a call that the table does not allow
by_function.py PROGRAM --update  adds what is seen to the table; --new writes it anew (run it with and without rseq)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from proof import proof

FOLDER = Path(__file__).resolve().parent
TABLE = FOLDER / "by_function.txt"
SYMBOLS = [FOLDER.parents[2] / folder / "exported_symbols.txt" for folder in ("tests/whole/golden", "shared/tests")]
NO_FUNCTION = {"freeway_debug"}
SITUATIONS = ["first call", "fast path", "slow paths", "memory refused", "bad pointer"]
STDIO = {"fstat", "newfstatat", "ioctl", "write"}  # of the C library's streams, whichever it is
SKIPPED, RUN_AGAIN = 77, 78
HEAD = """\
# The system calls that each exported function of libfreeway.so and libfreeway-shared.so may make, on x86-64;
# freeway_NAME is NAME's twin.
# Written by `by_function.py PROGRAM --update`; tests/whole/system_calls/README.md says how they are caught.
#
# first call      as the process's first, before any constructor has run; free and its like are given null
# fast path       small blocks, the magazine neither empty nor full
# slow paths      magazines that run empty or full, superblocks, large and huge blocks, another CPU
# memory refused  all that would give memory fails
# bad pointer     what is no block is given to it, with FREEWAY_ON_ERROR=report
"""

Calls = dict[str, set[str]]  # situation -> names of system calls


def run(program: str, *arguments: str) -> str:
    """What the program says; ends this test as skipped if the kernel offers no seccomp filters."""
    environment = os.environ | {"FREEWAY_ON_ERROR": "report"}
    while True:
        done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)
        if done.returncode != RUN_AGAIN:
            break
    if done.returncode == SKIPPED:
        print(done.stdout.strip())
        os._exit(SKIPPED)
    if done.returncode != 0:
        sys.exit(f"{program} {' '.join(arguments)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def observe(program: str, function: str) -> Calls:
    """The calls that the function makes in each situation."""
    said = run(program, function)
    if not function.startswith("("):
        said += run(program, function, "first")
    calls: Calls = {situation: set() for situation in SITUATIONS}
    for line in said.splitlines():
        situation, _, names = line.partition(":")
        calls[situation] |= set(names.split())
    return calls


def read_table() -> dict[str, Calls]:
    """The table as it is."""
    table = {}
    for line in TABLE.read_text().splitlines() if TABLE.exists() else []:
        if line.startswith("#") or not line.strip():
            continue
        name, *cells = (cell.strip() for cell in line.split("|"))
        if name != "function":
            table[name] = {s: set(cell.split()) - {"-"} for s, cell in zip(SITUATIONS, cells, strict=True)}
    return table


def write_table(table: dict[str, Calls]) -> None:
    """Columns are as wide as they need to be."""
    rows = [["function", *SITUATIONS]]
    rows += [[name, *(" ".join(sorted(calls[s])) or "-" for s in SITUATIONS)] for name, calls in table.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    TABLE.write_text(HEAD + "\n".join(lines) + "\n")


def allowed(kinds: dict[str, str], seen: dict[str, Calls], table: dict[str, Calls]) -> dict[str, Calls]:
    """What is seen and what the table has; also what others of its kind may, and when refused what it may otherwise."""
    together: dict[str, Calls] = {kind: {s: set() for s in SITUATIONS} for kind in kinds.values()}
    for name, kind in kinds.items():
        for situation in SITUATIONS:
            together[kind][situation] |= seen[name][situation] | table.get(name, {}).get(situation, set())
    for situation in SITUATIONS:
        together["throwing"][situation] |= together["allocating"][situation]
        together["malloc_info"][situation] |= STDIO if situation in ("slow paths", "memory refused") else set()
    for calls in together.values():
        calls["memory refused"] |= calls["slow paths"]
    return {name: together[kind] for name, kind in kinds.items()}


def missing_functions(functions: list[str]) -> list[str]:
    """Exported functions of which the program knows nothing; a twin is the same function."""
    lines = [line for path in SYMBOLS for line in path.read_text().split("\n")]
    exported = {line for line in lines if line and not line.startswith("#")} - NO_FUNCTION
    return sorted(name for name in exported if not {name, name.removeprefix("freeway_")} & set(functions))


def main() -> int:
    """Compares what is seen with the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--update", action="store_true", help="add what is seen")
    parser.add_argument("--new", action="store_true", help="write the table anew")
    options = parser.parse_args()
    kinds = dict(line.split() for line in run(options.program, "list").splitlines())
    functions = list(kinds)
    if missing := missing_functions(functions):
        print(f"by_function_program.cc does not know: {' '.join(missing)}")
        return 1
    with ThreadPoolExecutor(8) as pool:
        seen = dict(zip(functions, pool.map(lambda name: observe(options.program, name), functions), strict=True))
    table = {} if options.new else read_table()
    if options.update or options.new:
        write_table(allowed(kinds, seen, table))
        return 0
    faults = [f"{name}: not in {TABLE.name}" for name in functions if name not in table]
    faults += [f"{name}: no longer a function" for name in table if name not in functions]
    for name in functions:
        for situation in SITUATIONS:
            if more := seen[name][situation] - table.get(name, {}).get(situation, set()):
                faults.append(f"{name}, {situation}: makes {' '.join(sorted(more))}, which {TABLE.name} does not allow")
    faults += [f"{name}: its fast path makes system calls" for name in seen if seen[name]["fast path"]]
    print("\n".join(faults))
    proof("system calls", "by function", "functions", len(functions))
    may_make = sum(len(calls) for row in table.values() for calls in row.values())
    proof("system calls", "by function", "system calls that functions may make", may_make)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
