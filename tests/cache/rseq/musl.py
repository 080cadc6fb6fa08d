# SPDX-License-Identifier: MIT
"""Builds musl/detached_threads.c with musl and runs it under Freeway: the shared library preloaded, and the static one.

musl registers no rseq, and its detached threads unmap their own thread-local storage. Freeway registers a struct there,
and must have taken it back by then. A static program that has no pthread_key_create cannot tell it when: spare slabs.
The exit status is 77 (skipped) where there is no musl-gcc.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "musl" / "detached_threads.c"
BUILD = Path(os.environ["FREEWAY_BUILD_DIR"])
SKIPPED = 77
KEYS = [f"-Wl,-u,pthread_{name}" for name in ("key_create", "key_delete", "setspecific")]
OWN = "registered by Freeway"
# name, flags, preloaded, what the library says of its path
RUNS = (
    ("preloaded", [], True, OWN),
    ("static", ["-static", BUILD / "libfreeway.a", *KEYS], False, OWN),
    ("static, no keys", ["-static", "-DNO_KEYS", BUILD / "libfreeway.a"], False, "spare slabs: nothing tells"),
)


def run(name: str, flags: list[str | Path], preloaded: bool, path: str, folder: Path) -> bool:
    program = folder / "program"
    compiler = ["musl-gcc", "-O2", "-fno-builtin", "-I", HERE.parents[2] / "src", SOURCE, *flags, "-o", program]
    subprocess.run(compiler, check=True)
    environment = os.environ | {"FREEWAY_STATS": "1"}
    if preloaded:
        environment["LD_PRELOAD"] = os.environ["FREEWAY_LIB"]
    expected = "1" if path == OWN else "0"
    done = subprocess.run([program, expected], env=environment, capture_output=True, text=True, check=False)
    print(f"== {name}: status {done.returncode}\n{done.stderr}{done.stdout}", flush=True)
    return done.returncode == 0 and path in done.stderr and "passed" in done.stdout


if __name__ == "__main__":
    if shutil.which("musl-gcc") is None:
        print("skipped: no musl-gcc")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as place:
        results = [run(*each, Path(place)) for each in RUNS]
    sys.exit(0 if all(results) else 1)
