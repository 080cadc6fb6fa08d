# SPDX-License-Identifier: MIT
"""Each exported function as a process's very first call, in every stage of its start, with and without memory.

first_calls.py PRELOADED [STATIC]: two forms of first_call.cc; FREEWAY_LIB is what the first of them has preloaded.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from proof import proof

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "exported_symbols.txt"
NOT_OURS = {"fork"}  # in the table, but the C library's
# The loader's, which cannot load anything before it has begun (tests/abi/loader); and what is no function.
NOT_TRIED = {"dlopen", "freeway_debug"}
BEFORE_ENVIRON = ("resolver", "preinit")  # the C library has not set `environ`: no option is known
SPEAK = ("malloc_stats", "malloc_info")  # on fd 2
OUT_OF_MEMORY = "freeway: operator new: out of memory, and no C++ library to throw bad_alloc"


@dataclass(frozen=True)
class Form:
    """One way to get the library into a process."""

    program: str
    preload: str  # "": it is linked in
    stages: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One process."""

    form: Form
    function: str
    kind: str
    what: str
    stage: str
    memory: str

    def run(self) -> str:
        """What went wrong, or nothing."""
        environment = os.environ | {"FREEWAY_ON_ERROR": "report", "LD_PRELOAD": self.form.preload}
        argv = [self.form.program, self.function, self.what, self.stage, self.memory]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
        status, words = self.expected()
        silent = not words and not self.function.endswith(SPEAK)
        if done.returncode == status and words in done.stderr and not (silent and done.stderr):
            return ""
        return f"{' '.join(argv)}: status {done.returncode} instead of {status}, '{words}' wanted:\n{done.stderr}"

    def expected(self) -> tuple[int, str]:
        """The exit status, and what is said on fd 2."""
        if self.what == "foreign":
            return (-signal.SIGABRT if self.stage in BEFORE_ENVIRON else 0), "a foreign pointer 0x"
        if self.kind == "throws" and self.memory == "none":
            return -signal.SIGABRT, OUT_OF_MEMORY
        return 0, ""


def table_of(form: Form) -> dict[str, str]:
    """The program's functions and their kinds."""
    environment = os.environ | {"LD_PRELOAD": form.preload}
    said = subprocess.run([form.program, "list"], env=environment, capture_output=True, text=True, check=True)
    return dict(line.split() for line in said.stdout.splitlines())


def exported() -> set[str]:
    """The functions that there must be a row for."""
    return {line for line in GOLDEN.read_text().splitlines() if line and not line.startswith("#")} - NOT_TRIED


def cases_of(form: Form, table: dict[str, str]) -> Iterator[Case]:
    """Everything to try."""
    for function, kind in table.items():
        for stage in form.stages:
            for memory in ("enough", "none"):
                yield Case(form, function, kind, "call", stage, memory)
            # Of those that give, the ones that also take: realloc and its like. A heap's refuses what is not its own.
            if kind == "takes" or ("realloc" in function and function != "freeway_heap_realloc"):
                yield Case(form, function, kind, "foreign", stage, "enough")


def main() -> int:
    library = os.environ["FREEWAY_LIB"]
    forms = [Form(sys.argv[1], library, ("resolver", "preinit"))]  # our constructor is before the program's
    forms += [Form(program, "", ("resolver", "preinit", "constructor")) for program in sys.argv[2:]]
    table = table_of(forms[0])
    if set(table) - NOT_OURS != exported():
        print(f"the table in functions.h and {GOLDEN.name}: {sorted((set(table) - NOT_OURS) ^ exported())}")
        return 1
    cases = [case for form in forms for case in cases_of(form, table)]
    with ThreadPoolExecutor(max_workers=2) as workers:
        faults = [fault for fault in workers.map(Case.run, cases) if fault]
    print("\n".join(faults[:20]))
    proof("programs", "the first call of a process", "programs", len(cases))
    print(f"{len(cases)} processes, {len(table)} functions, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
