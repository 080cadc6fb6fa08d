# SPDX-License-Identifier: MIT
"""Whether src/arch/offsets.h is what the compilers make of the list in src/malloc/offsets.cc.

    offsets.py [COMPILER ...]   compares; also by the cross compilers that are there
    offsets.py --update         writes it

The compilers translate the list into assembly, from which the numbers are read: nothing of another processor is run.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "src/arch/offsets.h"
CROSS = ("x86_64-linux-gnu-g++", "aarch64-linux-gnu-g++")
BEGIN = """// SPDX-License-Identifier: MIT
// offsets.h: where the assembly finds what it reads, in bytes: in `freeway_hot` (HOT_), in a slab (SLAB_), in what a
// heap of one's own has (OWN_). Written by tests/golden/offsets.py from malloc/offsets.cc, which says why it is kept.
// Both processors have the same numbers.
#pragma once

"""


def header_by(compiler: str) -> str:
    """The header's text."""
    command = [compiler, "-std=c++20", "-O2", "-fno-lto", "-S", "-o", "-", "-DFREEWAY_WRITE_OFFSETS"]
    command += [f"-I{ROOT}/src", f"-I{ROOT}/include", str(ROOT / "src/malloc/offsets.cc")]
    assembly = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [f"#define {name} {value}\n" for name, value in re.findall(r'\.ascii\s+"([A-Z_]+) #?(\d+)"', assembly)]
    return BEGIN + "".join(lines)


def main() -> int:
    """Compares, or writes; exit status 1 if something differs."""
    parser = argparse.ArgumentParser(description="The offsets that the assembly knows beside the structures' own.")
    parser.add_argument("--update", action="store_true", help="write the header anew")
    parser.add_argument("compilers", nargs="*", default=["c++"])
    arguments = parser.parse_args()
    compilers = arguments.compilers + [compiler for compiler in CROSS if shutil.which(compiler)]
    if arguments.update:
        HEADER.write_text(header_by(compilers[0]))
    faults = [compiler for compiler in compilers if header_by(compiler) != HEADER.read_text()]
    for compiler in faults:
        print(f"{HEADER.relative_to(ROOT)} is another by {compiler}: offsets.py --update")
    print(f"compared by {', '.join(compilers)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
