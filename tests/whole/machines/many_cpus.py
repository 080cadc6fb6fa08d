# SPDX-License-Identifier: MIT
"""Runs many_cpus_program.cc in emulated machines of 32 CPUs and 4 NUMA nodes (tests/whole/machines/emulated.py).

One has a kernel before mm_cid, the other a newer one. A machine passes if its console says PASSED; the exit status is
77 (skipped) where a tool or the network is missing. Without hardware's help such a machine runs on one of this one's
CPUs, so what it shows is that 32 caches and their numbers are kept apart, and that CPUs may come and go.
"""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from emulated import ROOT, SKIPPED, Kind, Machine, boot, run
from proof import proof

HERE = Path(__file__).resolve().parent
BOOT_TIMEOUT_S = 600
CPUS, NODES = 32, 4


def nodes() -> tuple[str, ...]:
    """qemu's options for the nodes: as many CPUs each, 384 MiB each."""
    each = CPUS // NODES
    options: list[str] = []
    for node in range(NODES):
        options += ["-object", f"memory-backend-ram,id=m{node},size=384M"]
        options += ["-numa", f"node,nodeid={node},cpus={node * each}-{node * each + each - 1},memdev=m{node}"]
    return tuple(options)


KIND = Kind(
    "amd64",
    "qemu-system-x86_64",
    ("-accel", "tcg,thread=single", "-cpu", "qemu64", "-smp", str(CPUS), "-m", f"{NODES * 384}M", *nodes()),
    "ttyS0",
)
MACHINES = (
    Machine("cpu_id", "bookworm", r"linux-image-6\.1\.[-\w.+]*-cloud-amd64", "indexed by cpu_id"),
    Machine("mm_cid", "trixie", r"linux-image-6\.12\.[-\w.+]*-cloud-amd64", "indexed by mm_cid"),
)


def build_program(work: Path) -> Path:
    """The program, linked with the static library of the build under test."""
    library = Path(os.environ.get("FREEWAY_BUILD_DIR", ROOT / "build/release")) / "libfreeway.a"
    command = ["g++", "-std=c++20", "-O2", "-g", "-static", "-pthread", "-fno-builtin-malloc", "-fno-builtin-free"]
    command += [
        "-I",
        str(ROOT / "include"),
        "-I",
        str(ROOT),
        str(HERE / "many_cpus_program.cc"),
        str(library),
    ]
    subprocess.run([*command, "-o", str(work / "many_cpus_program")], check=True)
    return work / "many_cpus_program"


def passes(machine: Machine, image: Path, work: Path, seed: str) -> bool:
    # The kernel's own check of a timer fails where the emulator gets little time.
    said = boot(machine, KIND, image, work, f"no_timer_check FREEWAY_TEST_SEED={seed}", BOOT_TIMEOUT_S)
    if said is None:
        return False
    found = re.search(r"(\d+) CPUs, (\d+) nodes, (\d+) threads, (\d+) operations, (\d+) times offline", said)
    if found is None or found.group(1, 2) != (str(CPUS), str(NODES)):
        print("the machine does not have the CPUs and nodes that it should have")
        return False
    for what, count in zip(("CPUs", "nodes", "threads", "operations", "CPUs put offline"), found.groups(), strict=True):
        proof("machines", f"{CPUS} CPUs, {NODES} nodes, emulated, {machine.name}", what, int(count))
    return True


if __name__ == "__main__":
    if platform.machine() != "x86_64":
        print("skipped: not on x86-64: a compiler for it is")
        sys.exit(SKIPPED)
    sys.exit(run(MACHINES, KIND, "many_cpus_machines", ["g++"], build_program, passes))
