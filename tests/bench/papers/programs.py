# SPDX-License-Identifier: MIT
"""What the tests of the papers' benchmarks share: how a program is run, and under what."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(os.environ["FREEWAY_SOURCE_DIR"])
BUILD = Path(os.environ["FREEWAY_BUILD_DIR"])
WORKLOADS = BUILD / "bench/workloads"
FAULTY = os.environ["FAULTY_MALLOC"]
HMALLOC = BUILD / "libfreeway-hmalloc.so"
# glibc's own, the flagship, and a peer where one is installed.
PEERS = [f"/usr/lib/{machine}-linux-gnu/libmimalloc.so.2" for machine in ("x86_64", "aarch64")]
LIBRARIES = ["", os.environ["FREEWAY_LIB"], *[path for path in PEERS if Path(path).exists()]]
# Tests run beside each other, on machines that do other things, too.
TIMEOUT_S = 100

sys.path.insert(0, str(SOURCE / "bench"))


def start(command: str, library: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a workload, its arguments after its name, with `library` preloaded."""
    program, *arguments = command.split()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FREEWAY_", "MALLOC_"))}
    environment = {**kept, **variables, **({"LD_PRELOAD": library} if library else {})}
    return subprocess.run(
        [WORKLOADS / program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def run(command: str, library: str = "", **variables: str) -> dict:
    """The program's line. It must have succeeded."""
    done = start(command, library, **variables)
    if done.returncode != 0:
        raise AssertionError(f"{command} under {library or 'glibc'}: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def parameters(command: str) -> dict:
    """The parameters in effect."""
    return run(f"{command} --parameters")
