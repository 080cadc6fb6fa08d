# SPDX-License-Identifier: MIT
"""Programs with `freeway_options`: which of them are heard, and that the environment has the last word.

program_options.py LINKED STATIC EXPORTING HIDING: forms of program.c; FREEWAY_LIB is what the last two have preloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NOBODY = 65534
WRONG = "freeway: freeway_options: ON_ERROR=much is not understood (abort|report); the default is used\n"
SUMMARY = "freeway: what the heap did ("
HARDENED = SUMMARY + "hardened)"


def said_by(program: str, *, preload: str = "", user: int | None = None, **variables: str) -> str:
    """What the program writes on fd 2."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FREEWAY_")}
    environment = kept | {"LD_PRELOAD": preload} | {f"FREEWAY_{name}": value for name, value in variables.items()}
    done = subprocess.run(
        [program], env=environment, capture_output=True, text=True, timeout=60, check=False, user=user
    )
    return done.stderr if done.returncode == 0 else f"status {done.returncode}: {done.stderr}"


def faults_of(program: str, preload: str = "") -> list[str]:
    """A program whose text must be heard."""
    faults = []
    alone = said_by(program, preload=preload)
    if not alone.startswith(WRONG + HARDENED):
        faults.append(f"{program} alone: {alone!r}")
    both = said_by(program, preload=preload, HARDEN="0", ON_ERROR="abort")
    if HARDENED in both or not both.startswith(SUMMARY):
        faults.append(f"{program}, the environment says otherwise: {both!r}")
    if said := said_by(program, preload=preload, STATS="0", ON_ERROR="abort"):
        faults.append(f"{program}, the environment says that it be silent: {said!r}")
    return faults


def faults_of_privileged(program: str) -> list[str]:
    """A setuid program: its own text is heard, the environment is not."""
    if os.geteuid() != 0:
        print("not root: no setuid program is tried")
        return []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        copy = Path(shutil.copy(program, Path(folder) / "program"))
        copy.chmod(0o4755)
        said = said_by(str(copy), user=NOBODY, HARDEN="0", STATS="0", ON_ERROR="abort")
    if WRONG in said and HARDENED in said:
        return []
    if not said:  # a file system on which the bit means nothing: an ordinary program, whose environment counts
        print("no setuid programs here")
        return []
    return [f"a setuid program: {said!r}"]


def faults_at_the_end(program: str, preload: str = "") -> list[str]:
    """Whoever links the library has also what it does when the process ends."""
    said = said_by(program, preload=preload, STATS="1")
    return [] if SUMMARY in said else [f"{program} has no report at its end: {said!r}"]


def main() -> int:
    linked, static, exporting, hiding = sys.argv[1:]
    library = os.environ["FREEWAY_LIB"]
    faults = faults_of(linked) + faults_of(static) + faults_of(exporting, library) + faults_of_privileged(static)
    faults += faults_at_the_end(linked) + faults_at_the_end(static) + faults_at_the_end(hiding, library)
    if said := said_by(hiding, preload=library):
        faults.append(f"a program that does not export its text has it heard: {said!r}")
    print("\n".join(faults) if faults else "4 forms of a program")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
