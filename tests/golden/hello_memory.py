# SPDX-License-Identifier: MIT
"""What a program that prints one line has of anonymous memory more than with glibc is what docs/limits.md says, and
docs/choose.md.

Pages are counted where the kernel has them, so the figure is the same each time, but for a few pages of stack and
loader. $FREEWAY_LIB is preloaded; the argument is the program (hello.c). Other sizes of pages than 4 KiB are
skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE, CHOOSE = ROOT / "docs/limits.md", ROOT / "docs/choose.md"
SAID = re.compile(r"prints one line has (\d+) KiB of anonymous memory at its end \(glibc: (\d+)\)")
AROUND_KIB = 12
SKIPPED = 77


def anonymous_kib(program: str, library: str | None) -> int:
    """Of the program, started with nothing in its environment."""
    variables = {"LD_PRELOAD": library} if library else {}
    done = subprocess.run([program], env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return int(done.stdout.split()[-1])


def main() -> int:
    if os.sysconf("SC_PAGE_SIZE") != 4096:
        return SKIPPED
    said = SAID.search(PAGE.read_text())
    if said is None:
        print(f"{PAGE.relative_to(ROOT)} does not say what a program that prints one line has")
        return 1
    ours, theirs = (anonymous_kib(sys.argv[1], library) for library in (os.environ["FREEWAY_LIB"], None))
    promised = int(said[1]) - int(said[2])
    print(f"{ours} KiB, {theirs} with glibc; docs/limits.md says {said[1]} and {said[2]}")
    if f"[{promised} KiB](limits.md" not in CHOOSE.read_text():
        print(f"docs/choose.md does not say {promised} KiB more")
        return 1
    return 0 if abs(ours - theirs - promised) <= AROUND_KIB else 1


if __name__ == "__main__":
    sys.exit(main())
