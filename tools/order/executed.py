# SPDX-License-Identifier: MIT
"""Runs inside gdb: which functions of the library at $ORDER_LIBRARY, which is preloaded, the program executes.

A breakpoint at each function, from before the library's first instruction on, which goes with its first hit. Prints a
line of JSON: the functions' symbols in the order of their first calls, several of one address together.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
from pathlib import Path
from typing import ClassVar

import gdb

LIBRARY = Path(os.environ["ORDER_LIBRARY"]).resolve()


def functions() -> dict[int, list[str]]:
    """The symbols at each address in the library's code."""
    lines = subprocess.run(["nm", LIBRARY], capture_output=True, text=True, check=True).stdout.splitlines()
    found = collections.defaultdict(list)
    for address, kind, name in (line.split() for line in lines if len(line.split()) == 3):
        if kind in "tTwW":
            found[int(address, 16)].append(name)
    return found


def base() -> int:
    """Where the library is mapped."""
    maps = Path(f"/proc/{gdb.selected_inferior().pid}/maps").read_text().splitlines()
    return int(next(line for line in maps if line.endswith(str(LIBRARY))).split("-")[0], 16)


class First(gdb.Breakpoint):
    """Notes the first call of a function, and goes on."""

    calls: ClassVar[list[int]] = []

    def __init__(self, base: int, offset: int) -> None:
        super().__init__(f"*{base + offset:#x}", internal=True)
        self.offset = offset

    def stop(self) -> bool:
        """Says that the program shall not stop."""
        self.calls.append(self.offset)
        self.enabled = False
        return False


def main() -> None:
    """Runs the program."""
    for setting in ("pagination off", "confirm off", "startup-with-shell off", "auto-solib-add off"):
        gdb.execute(f"set {setting}")
    gdb.execute(f"set environment LD_PRELOAD {LIBRARY}")
    gdb.execute(f"catch load {LIBRARY.name.split('.')[0]}")
    gdb.execute("run")
    gdb.execute("delete")
    symbols, start = functions(), base()
    kept = [First(start, offset) for offset in symbols]
    gdb.execute("continue")
    print("EXECUTED " + json.dumps([symbols[offset] for offset in First.calls]), len(kept))


main()
