# SPDX-License-Identifier: MIT
"""`python3 -m tools.order`: writes src/order.ld, the order of libfreeway.so's functions, from runs of programs.

Linux maps a file's code in windows of 64 KiB around each page that is touched. So the functions that every process
executes come first, as the programs below are observed to call them: those of a program that does nothing, of one that
prints a line, then by the number of programs. Needs gdb, and build/release.
"""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = Path("build/release/libfreeway.so")
ORDER = Path("src/order.ld")
MANY = "print(len({i: [str(i)] for i in range(20000)}))"
PROGRAMS = (
    ["/bin/true"],
    ["build/release/tests/whole/golden/golden_hello"],
    ["/bin/ls", "-l", "/usr/bin"],
    ["/usr/bin/sort", "CHANGELOG.md"],
    ["/usr/bin/git", "log", "--stat", "-3"],
    ["/usr/bin/awk", 'BEGIN { for (i = 0; i < 20000; i++) a[i] = i "x"; print length(a) }'],
    ["/usr/bin/perl", "-e", "my %h; $h{$_} = [$_] for 1..20000; print scalar keys %h"],
    ["/bin/bash", "-c", "x=(); for i in $(seq 2000); do x+=($i); done; echo ${#x[@]}"],
    [str(Path(sys.executable).resolve()), "-c", MANY],
)
CLONE = re.compile(r"\.(constprop|part|isra|cold|lto_priv)\b.*")
SCRIPT = """/* SPDX-License-Identifier: MIT
 *
 * The order of libfreeway.so, written by `python3 -m tools.order`: docs/decisions/052-order-of-functions.md.
 * Functions first that every process executes, then those of most programs. What the names do not match lies behind.
 */
SECTIONS
{
  .fini : { KEEP (*(SORT_NONE(.fini))) }
  .text : ALIGN(4096)
  {
    *fast_path.S.o(.text)
    */new.S.o(.text)
    *crtbegin*.o(.text)
    *rseq_sections.S.o(.text)
    *alone.S.o(.text)
%s
    *(.text.unlikely .text.unlikely.* .text.startup .text.startup.* .text.exit .text.exit.* .text .text.*)
  }
}
INSERT BEFORE .text;
SECTIONS
{
  .rodata : { *(.rodata .rodata.*) }
}
INSERT AFTER .rela.dyn;
SECTIONS
{
  .bss.large (NOLOAD) : ALIGN(4096) { *(.bss.large) }
}
INSERT AFTER .bss;
"""


def executed(program: list[str]) -> list[str]:
    """The functions that the program executes, in the order of their first calls; clones by the function's name."""
    command = ["gdb", "-nx", "-batch", "-iex", "set auto-load off", "-x", HERE / "executed.py", "--args", *program]
    settings = {**os.environ, "ORDER_LIBRARY": str(LIBRARY), "GIT_PAGER": "cat"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=settings)
    for line in done.stdout.splitlines():
        if "EXECUTED " in line:
            found, _ = json.JSONDecoder().raw_decode(line.split("EXECUTED ")[1])
            return list(dict.fromkeys(CLONE.sub("", name) for names in found for name in names))
    raise RuntimeError(f"gdb could not follow {program[0]}:\n{done.stdout[-500:]}\n{done.stderr[-500:]}")


def main() -> int:
    """Writes the order."""
    runs = [executed(program) for program in PROGRAMS]
    count = collections.Counter(name for run in runs for name in run)
    names = sorted(
        dict.fromkeys(name for run in runs for name in run),
        key=lambda name: (name not in runs[0], name not in runs[1], -count[name]),
    )
    # Those of the compiler's own files have no sections of their own.
    names = [name for name in names if re.match(r"_Z|freeway_|[a-z]+$", name)]
    ORDER.write_text(
        SCRIPT
        % "\n".join(
            f"    *(.text.{name}* .text.unlikely.{name}* .text.startup.{name}* .text.exit.{name}*)" for name in names
        )
    )
    print(f"{ORDER}: {len(names)} functions of {len(runs)} programs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
