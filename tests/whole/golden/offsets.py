# SPDX-License-Identifier: MIT
"""Whether the headers offsets.h in src/ are what the compilers make of the list in src/malloc/offsets.cc.

    offsets.py [COMPILER ...]   compares; also by the cross compilers that are there
    offsets.py --update         writes them

The compilers translate the list into assembly, from which the numbers are read: nothing of another processor is run.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# By the beginnings of the names: the room that has the structures, and what those are.
ROOMS = {
    "arch": ("RSEQ_PLACE_", "`freeway_rseq`"),
    "cache": ("HOT_|SLAB_", "`freeway_hot` (HOT_) and a slab (SLAB_)"),
    "malloc": ("MALLOC_|OWN_", "a heap of the program's (OWN_); the forms of malloc (MALLOC_)"),
}
CROSS = ("x86_64-linux-gnu-g++", "aarch64-linux-gnu-g++")
BEGIN = """// SPDX-License-Identifier: MIT
// offsets.h: the assembly's offsets, in bytes: %s.
// Both processors have the same. Written by tests/whole/golden/offsets.py from malloc/offsets.cc, which says why.
#pragma once

"""


def headers_by(compiler: str) -> dict[Path, str]:
    """The headers' texts."""
    command = [compiler, "-std=c++20", "-O2", "-fno-lto", "-S", "-o", "-", "-DFREEWAY_WRITE_OFFSETS"]
    command += [f"-I{ROOT}/src", f"-I{ROOT}/include", str(ROOT / "src/malloc/offsets.cc")]
    assembly = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.findall(r'\.ascii\s+"([A-Z_]+) #?(\d+)"', assembly)
    headers = {}
    for room, (names, structures) in ROOMS.items():
        lines = [f"#define {name} {value}\n" for name, value in found if re.match(names, name)]
        headers[ROOT / "src" / room / "offsets.h"] = BEGIN % structures + "".join(lines)
    return headers


def main() -> int:
    """Compares, or writes; exit status 1 if something differs."""
    parser = argparse.ArgumentParser(description="The offsets that the assembly knows beside the structures' own.")
    parser.add_argument("--update", action="store_true", help="write the headers anew")
    parser.add_argument("compilers", nargs="*", default=["c++"])
    arguments = parser.parse_args()
    compilers = arguments.compilers + [compiler for compiler in CROSS if shutil.which(compiler)]
    if arguments.update:
        for header, text in headers_by(compilers[0]).items():
            header.write_text(text)
    faults = 0
    for compiler in compilers:
        for header, text in headers_by(compiler).items():
            if not header.exists() or header.read_text() != text:
                print(f"{header.relative_to(ROOT)} is another by {compiler}: offsets.py --update")
                faults += 1
    print(f"compared by {', '.join(compilers)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
