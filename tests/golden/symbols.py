# SPDX-License-Identifier: MIT
"""Compares the symbols of libfreeway.so with the golden lists beside this file.

    symbols.py exported    what other objects can bind to: a name more is a clash waiting, a name less a broken program
    symbols.py undefined   what the library needs: libc only; nothing of threads, of the C++ run-time, of libatomic

The library is $FREEWAY_LIB or --library. --update writes the list instead of comparing. Needs readelf (binutils).
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent.parent / "include" / "freeway" / "freeway.h"

# Whoever needs one of these is not lock-free, or not usable in a plain C program. A weak reference is not a need: it is
# null where the program does not bring the symbol itself.
FORBIDDEN_NEEDS = re.compile(
    r"^(pthread_|thrd_|mtx_|call_once|sem_|futex|__tls_get_addr|__cxa_|__gxx_|_Unwind_|_ZSt|_ZNSt|_ZN|__atomic_|__cxa_guard)"
)
ALLOWED_LIBRARIES = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def readelf(library: Path, *options: str) -> str:
    return subprocess.run(["readelf", "-W", *options, str(library)], check=True, capture_output=True, text=True).stdout


def dynamic_symbols(library: Path) -> tuple[list[str], list[str]]:
    """Returns the lines of the two lists, (exported, undefined), sorted: `name`, or `weak name`."""
    exported: set[str] = set()
    undefined: set[str] = set()
    for line in readelf(library, "--dyn-syms").splitlines():
        #   Num: Value Size Type Bind Vis Ndx Name
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        bind, section, name = fields[4], fields[6], fields[7].split("@")[0]
        if bind not in ("GLOBAL", "WEAK") or section == "ABS":
            continue
        if section == "UND":
            undefined.add(f"weak {name}" if bind == "WEAK" else name)
        else:
            exported.add(name)
    return sorted(exported), sorted(undefined)


def header_functions() -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    return set(re.findall(r"\b(freeway_\w+)\s*\(", text))


def compare(found: list[str], golden: Path) -> list[str]:
    expected = golden.read_text().split("\n")[1:]
    expected = [line for line in expected if line]
    faults = [f"new: {line}" for line in found if line not in expected]
    faults += [f"gone: {line}" for line in expected if line not in found]
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", choices=["exported", "undefined"])
    parser.add_argument("--library", type=Path, default=os.environ.get("FREEWAY_LIB"))
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    if arguments.library is None:
        parser.error("neither --library nor FREEWAY_LIB is given")
    library = Path(arguments.library)
    golden = HERE / f"{arguments.list}_symbols.txt"

    exported, undefined = dynamic_symbols(library)
    found = exported if arguments.list == "exported" else undefined
    faults: list[str] = []
    if arguments.update:
        title = f"# The {arguments.list} symbols of libfreeway.so; written by symbols.py --update."
        golden.write_text("\n".join([title, *found, ""]))
    else:
        faults += compare(found, golden)
    if arguments.list == "exported":
        declared = header_functions()
        twins = {name for name in exported if name.startswith("freeway_")}
        faults += [f"declared in freeway.h but not exported: {name}" for name in sorted(declared - twins)]
        faults += [f"exported but not declared in freeway.h: {name}" for name in sorted(twins - declared)]
    else:
        faults += [f"must not be needed: {name}" for name in undefined if FORBIDDEN_NEEDS.match(name)]
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(library, "--dynamic")))
        faults += [f"links {name}" for name in sorted(needed - ALLOWED_LIBRARIES)]
    for fault in faults:
        print(f"{arguments.list}: {fault}")
    if not faults:
        print(f"{len(found)} {arguments.list} symbols are as expected")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
