# SPDX-License-Identifier: MIT
"""What a program that prints one line has of memory: of anonymous memory, what docs/limits.md says and docs/choose.md;
of libfreeway.so's file no more than a window of 64 KiB and what lies around that.

Pages are counted where the kernel has them, so the figures are the same each time, but for a few pages of stack and
loader. $FREEWAY_LIB is preloaded; the argument is the program (hello.c). Other sizes of pages than 4 KiB are
skipped. --any-order: the linker could not put the library's functions in order (src/order.ld).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE, CHOOSE = ROOT / "docs/limits.md", ROOT / "docs/choose.md"
SAID = re.compile(r"prints one line has (\d+) KiB of anonymous memory at its end \(glibc: (\d+)\)")
AROUND_KIB = 12
FILE_KIB = 72
WINDOW = 64 * 1024  # what Linux maps of a file around a page that is touched
SKIPPED = 77


def mappings(program: str, library: str | None) -> list[tuple[int, str, dict[str, int]]]:
    """Address, file and figures in KiB of each mapping of the program, started with nothing in its environment."""
    variables = {"LD_PRELOAD": library} if library else {}
    with subprocess.Popen(
        [program], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        lines = Path(f"/proc/{process.pid}/smaps").read_text().splitlines()
        process.stdin.close()
        if process.wait() != 0:
            sys.exit(process.returncode)
    found: list[tuple[int, str, dict[str, int]]] = []
    for line in lines:
        if begin := re.match(r"([0-9a-f]+)-[0-9a-f]+ (?:\S+ ){4}\s*(.*)", line):
            found.append((int(begin[1], 16), begin[2], {}))
        elif figure := re.match(r"(\w+):\s+(\d+) kB", line):
            found[-1][2][figure[1]] = int(figure[2])
    return found


def anonymous_kib(program: str, library: str | None) -> int:
    """What it has of anonymous memory."""
    return sum(figures["Anonymous"] for _, _, figures in mappings(program, library))


def file_pages_are_few(program: str, library: str) -> bool:
    """Whether little of the library's file is resident, once all of it is in the page cache."""
    path = Path(library).resolve()
    path.read_bytes()
    own = [(address, figures) for address, file, figures in mappings(program, library) if file == str(path)]
    resident = sum(figures["Rss"] - figures["Anonymous"] for _, figures in own)
    # Where the kernel has put it between two windows' beginnings, its code begins in one and goes on in the next.
    limit = FILE_KIB + (WINDOW // 1024 if own[0][0] % WINDOW else 0)
    print(f"{resident} KiB of the library's file are resident, at most {limit} may be")
    return resident <= limit


def main() -> int:
    """Compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--any-order", action="store_true")
    arguments = parser.parse_args()
    if os.sysconf("SC_PAGE_SIZE") != 4096:
        return SKIPPED
    library = os.environ["FREEWAY_LIB"]
    if not arguments.any_order and not file_pages_are_few(arguments.program, library):
        return 1
    said = SAID.search(PAGE.read_text())
    if said is None:
        print(f"{PAGE.relative_to(ROOT)} does not say what a program that prints one line has")
        return 1
    ours, theirs = (anonymous_kib(arguments.program, preloaded) for preloaded in (library, None))
    promised = int(said[1]) - int(said[2])
    print(f"{ours} KiB, {theirs} with glibc; docs/limits.md says {said[1]} and {said[2]}")
    if f"[{promised} KiB](limits.md" not in CHOOSE.read_text():
        print(f"docs/choose.md does not say {promised} KiB more")
        return 1
    return 0 if abs(ours - theirs - promised) <= AROUND_KIB else 1


if __name__ == "__main__":
    sys.exit(main())
