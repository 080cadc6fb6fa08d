# SPDX-License-Identifier: MIT
"""libfreeway.so in musl's programs, by LD_PRELOAD and by `freeway run`, and libfreeway.a in static ones.

The library under test is the one that glibc's programs get: there is no other. Exit status 77 without musl-gcc.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
WHOLE = HERE.parent
ROOT = HERE.parents[2]
PROGRAMS = {
    "first_call": HERE / "first_call.c",
    "every_function": WHOLE / "machines/every_function.c",
    "heap_program": HERE / "heap_program.c",
}
SKIPPED = 77


def build(folder: Path, name: str, *how: str | Path) -> Path:
    output = folder / name
    command = ["musl-gcc", "-O2", "-g", "-fno-builtin", "-I", ROOT / "include", *how, "-o", output]
    subprocess.run(command, check=True)
    return output


def said_by(command: list[str | Path], **variables: str) -> str:
    """What a program says that must succeed; it must be under Freeway and say so."""
    environment = os.environ | {"FREEWAY_STATS": "1"} | variables
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    if done.returncode != 0 or "freeway: " not in text or "Error" in text:
        print(f"{command}: status {done.returncode}\n{text}")
        sys.exit(1)
    return text


def main() -> int:
    if shutil.which("musl-gcc") is None:
        print("skipped: no musl-gcc")
        return SKIPPED
    library, command = os.environ["FREEWAY_LIB"], os.environ["FREEWAY_COMMAND"]
    archive = Path(os.environ["FREEWAY_BUILD_DIR"]) / "libfreeway.a"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program, source in PROGRAMS.items():
            # Those that call functions of freeway.h are linked with the library, and it is loaded once all the same.
            link = [] if program == "every_function" else [library, f"-Wl,-rpath,{Path(library).parent}"]
            dynamic = build(folder, program, source, *link)
            static = build(folder, f"{program}.static", "-static", source, archive)
            for way, said in (
                ("LD_PRELOAD", said_by([dynamic], LD_PRELOAD=library)),
                ("freeway run", said_by([command, "run", "--", dynamic])),
                ("static", said_by([static])),
            ):
                print(f"{program}, {way}: {said.strip().splitlines()[-1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
