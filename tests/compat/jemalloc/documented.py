# SPDX-License-Identifier: MIT
"""The manual page names what the library knows, and nothing else; its JSON is well-formed and has what dashboards read.

Looks at $FREEWAY_JEMALLOC from inside this process, which keeps its own malloc.
"""

import ctypes
import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "man" / "freeway-jemalloc.3"
README = ROOT / "compat" / "jemalloc" / "README.md"
TEST = Path(__file__).resolve().parent / "control_test.cc"
ACTIONS = {"arena.0.purge", "arena.0.decay", "thread.idle"}  # and thread.tcache.flush, which have nothing to read
READ_BY_DASHBOARDS = ("allocated", "active", "metadata", "resident", "mapped")

library = ctypes.CDLL(os.environ["FREEWAY_JEMALLOC"])


def is_known(name: str) -> bool:
    """Whether the library has that name."""
    mib, length = (ctypes.c_size_t * 8)(), ctypes.c_size_t(8)
    return library.mallctlnametomib(name.replace("<i>", "0").encode(), mib, ctypes.byref(length)) == 0


def documented() -> set[str]:
    """The names in the page's lists."""
    names: set[str] = set()
    for line in PAGE.read_text().split(".Sh NAMES OF MALLCTL")[1].split(".Sh EXAMPLES")[0].splitlines():
        if line.startswith(".It Va "):
            names |= set(line.removeprefix(".It Va ").split(" No (")[0].split(" , "))
    return names


def printed() -> dict:
    """What malloc_stats_print gives as JSON."""
    pieces: list[bytes] = []
    write = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(lambda _, piece: pieces.append(piece))
    library.malloc_stats_print(write, None, b"J")
    return json.loads(b"".join(pieces))["jemalloc"]


def flat(tree: dict, prefix: str) -> set[str]:
    """The names of the leaves."""
    names: set[str] = set()
    for key, value in tree.items():
        name = f"{prefix}{key}"
        names |= flat(value, name + ".") if isinstance(value, dict) else {name}
    return names


def main() -> int:
    names = documented()
    faults = [f"freeway-jemalloc.3 has {name}, the library has not" for name in sorted(names) if not is_known(name)]
    if len(names) < 80:
        faults.append(f"only {len(names)} names were found in the page")

    tree = printed()
    merged = tree.pop("stats.arenas")["merged"]
    told = flat(tree, "") | {f"stats.arenas.<i>.{name}" for name in flat(merged, "")}
    tested = set(re.findall(r'\{"([a-z_0-9.]+)", k', TEST.read_text())) | ACTIONS
    for where, there in (("JSON", told), ("control_test.cc", {re.sub(r"\.0\.", ".<i>.", name) for name in tested})):
        faults += [f"{where} has {name}, freeway-jemalloc.3 has not" for name in sorted(there - names)]
    # What the test reads is what can be read: the page has nothing else but what only acts.
    acting = {name for name in names if name.replace("<i>", "0") not in tested}
    expected = {"thread.tcache.flush", "arena.<i>.destroy", "arenas.create", "arenas.lookup", "prof.dump", "prof.reset"}
    expected |= {"tcache.create", "tcache.flush", "tcache.destroy"}
    if acting != expected:
        faults.append(f"freeway-jemalloc.3 has names that control_test.cc does not read: {sorted(acting ^ expected)}")

    for key in READ_BY_DASHBOARDS:
        if not isinstance(tree["stats"].get(key), int):
            faults.append(f"JSON has no number jemalloc.stats.{key}")
    asked = re.findall(r"`((?:stats|arenas|arena|prof|opt)\.[a-z_.0-9<>]+)`", README.read_text())
    missing = {name for name in asked if not is_known(name.replace("<narenas>", "1")) and not name.endswith(".")}
    stated = {"stats.retained", "arena.<i>.extent_hooks"}
    if missing != stated:
        faults.append(f"README.md: names that are not there, or said not to be: {sorted(missing ^ stated)}")
    for fault in faults:
        print(fault)
    print(f"{len(names)} names documented, {len(told)} in JSON, {len(asked)} in README.md: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
