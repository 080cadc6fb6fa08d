# SPDX-License-Identifier: MIT
"""Compares the symbols of libfreeway-jemalloc.so with the golden lists beside this file.

    names.py exported    what programs can bind to
    names.py undefined   what it needs: Freeway's public functions, and libc's that may be called anywhere
    names.py versions    it loads wherever libfreeway.so does

The library is $FREEWAY_JEMALLOC or --library. --update writes the list instead of comparing. Needs readelf (binutils).
"""

import argparse
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "whole" / "golden"))

import symbols as golden  # noqa: E402

HEADER = HERE.parents[2] / "compat" / "jemalloc" / "include" / "jemalloc" / "jemalloc.h"
PUBLIC = golden.header_names("freeway.h")
# What the linker brings along, weak.
START = {
    "weak _ITM_deregisterTMCloneTable",
    "weak _ITM_registerTMCloneTable",
    "weak __cxa_finalize",
    "weak __gmon_start__",
}


def declared() -> set[str]:
    """The functions and variables that the header declares."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    text = re.sub(r"^#.*(\\\n.*)*$", "", text, flags=re.MULTILINE)
    functions = re.findall(r"\b(\w+)\([^()]*(?:\([^()]*\)[^()]*)*\)\s*FREEWAY_JEMALLOC_NOEXCEPT;", text)
    return set(functions) | set(re.findall(r"^extern .*\(\*(\w+)\)", text, re.MULTILINE))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", choices=["exported", "undefined", "versions"])
    parser.add_argument("--library", type=Path, default=os.environ.get("FREEWAY_JEMALLOC"))
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    if arguments.library is None:
        parser.error("neither --library nor FREEWAY_JEMALLOC is given")
    library = Path(arguments.library)
    exported, undefined = golden.dynamic_symbols(library)
    undefined = sorted(set(undefined) - START)
    if arguments.list == "versions":
        faults = golden.faults_of_versions(library)
    else:
        found = exported if arguments.list == "exported" else undefined
        path = HERE / f"{arguments.list}_symbols.txt"
        if arguments.update:
            title = f"# The {arguments.list} symbols of libfreeway-jemalloc.so; written by names.py --update."
            path.write_text("\n".join([title, *found, ""]))
        # Which of memcmp and its like a compiler calls is its own business: what is needed no more is no fault.
        faults = golden.compare(found, golden.golden_list(path), optional=arguments.list == "undefined")
        if arguments.list == "exported":
            names = declared()
            faults += [f"declared and not there: {name}" for name in sorted(names - set(exported))]
            faults += [f"in no header: {name}" for name in sorted(set(exported) - names) if not name.startswith("je_")]
            if len(names) < 12:
                faults.append(f"only {len(names)} declarations were understood")
        else:
            faults += [f"not public: {n}" for n in undefined if n.startswith("freeway_") and n not in PUBLIC]
            faults += [f"must not be needed: {n}" for n in undefined if golden.FORBIDDEN_NEEDS.match(n)]
    return golden.report(arguments.list, faults, f"{len(exported)} exported, {len(undefined)} undefined symbols")


if __name__ == "__main__":
    sys.exit(main())
