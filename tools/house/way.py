# SPDX-License-Identifier: MIT
"""Runs inside gdb: which source files a malloc(32) executes, instruction by instruction, inlined functions included.

Three calls of one process that loops over malloc(32), without rseq (a section that is single-stepped begins anew for
ever): a hit in the magazine, one that finds it empty, one that asks the kernel for memory. Prints a line of JSON:
{"hit": [files], "empty": [files], "mmap": [files]}.
"""

from __future__ import annotations

import json

import gdb

FIRST = 1000  # calls that are left out: the process has begun


def index() -> int:
    """How many calls of malloc the loop has made."""
    return int(gdb.parse_and_eval("calls"))


def restart() -> None:
    """Begins the process anew, up to its first call; addresses are the same each time."""
    gdb.execute("delete")
    gdb.execute("tbreak loop")
    gdb.execute("run")


def stop_at(where: str, least: int) -> int:
    """Begins anew, runs to the first `where` after `least` calls; the number of that call."""
    restart()
    run_to(least)
    gdb.execute(where)
    gdb.execute("continue")
    return index()


def run_to(call: int) -> None:
    """Stops where the call of that number is about to be made."""
    if call > 0:
        gdb.execute(f"tbreak before_call if calls == {call}")
        gdb.execute("continue")


def files_of(call: int) -> list[str]:
    """The files of src/ that this call executes."""
    restart()
    run_to(call)
    gdb.execute("tbreak *malloc")
    gdb.execute("continue")
    end = int(gdb.selected_frame().older().pc())
    files: set[str] = set()
    while (frame := gdb.newest_frame()).pc() != end:
        inlined: gdb.Frame | None = frame
        while inlined is not None:
            table = inlined.find_sal().symtab
            if table is not None and "/src/" in table.fullname():
                files.add(table.fullname().split("/src/")[-1])
            inlined = inlined.older() if inlined.type() == gdb.INLINE_FRAME else None
        gdb.execute("stepi")
    return sorted(files)


def main() -> None:
    for setting in ("pagination off", "confirm off", "breakpoint pending on", "disable-randomization on"):
        gdb.execute(f"set {setting}")
    mapped = stop_at("catch syscall mmap mprotect", FIRST)
    empty = stop_at("break freeway::Heap::refill", FIRST)
    hit = files_of(empty + 1)
    while "pages/frames.h" in (refilled := files_of(empty)):  # a new superblock: not that one
        empty = stop_at("break freeway::Heap::refill", empty + 1)
    found = {"hit": hit, "empty": refilled, "mmap": files_of(mapped)}
    gdb.execute("kill")
    print("WAY " + json.dumps(found))


main()
