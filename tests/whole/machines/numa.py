# SPDX-License-Identifier: MIT
"""Runs numa_program.cc in an emulated machine of 32 CPUs and 4 NUMA nodes: blocks on another node than who gets them.

    numa.py                         with the static library of the build
    numa.py before.a after.a ...    with each of these, and a table
    numa.py cpu_id ...              under that kernel alone (many_cpus.py)

Without hardware's help such a machine's times say nothing; where its memory lies is as it would be. Fails if more
blocks lie elsewhere than LIMITS allow; the exit status is 77 (skipped) where a tool or the network is missing.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from emulated import (
    ROOT,
    SKIPPED,
    Kind,
    Machine,
    MissingError,
    boot,
    bootable,
    folder,
    initial_file_system,
)
from many_cpus import KIND, MACHINES
from proof import proof

HERE = Path(__file__).resolve().parent
BOOT_TIMEOUT_S = 900
# Huge pages, the kernel's default, would have blocks of several nodes in them.
SETTINGS = "no_timer_check transparent_hugepage=never"
# Debian 12's qemu garbles the processor's flags after `cmpxchg16b` now and then, which newer kernels use a lot.
OPTIONS = tuple("qemu64,-cx16" if each == "qemu64" else each for each in KIND.options)
SOUND_KIND = Kind(KIND.architecture, KIND.emulator, OPTIONS, KIND.console)
# Of the blocks that are looked at, in percent. Which thread comes when differs from run to run; without lists and homes
# by node `exchange` has about 50, `next node` 64.
LIMITS = {"local": 25.0, "exchange": 40.0, "next node": 40.0}

NAMES = {machine.name for machine in MACHINES}
Figures = dict[str, tuple[int, int, int]]  # workload -> blocks, of these elsewhere, KiB


def build_program(library: Path, work: Path) -> Path:
    """The program, linked with the library."""
    place = work / "numa_program"
    command = ["g++", "-std=c++20", "-O2", "-g", "-static", "-pthread", "-fno-builtin-malloc", "-fno-builtin-free"]
    command += ["-I", str(ROOT / "include"), "-I", str(ROOT)]
    subprocess.run([*command, str(HERE / "numa_program.cc"), str(library), "-o", str(place)], check=True)
    return place


def figures_of(machine: Machine, library: Path, work: Path, seed: str) -> Figures | None:
    """Boots the machine with the library; what it said, or None if it did not pass."""
    image = initial_file_system(build_program(library, work), work)
    said = boot(machine, SOUND_KIND, image, work, f"{SETTINGS} FREEWAY_TEST_SEED={seed}", BOOT_TIMEOUT_S)
    if said is None:
        return None
    lines = re.findall(r"^([a-z ]+): (\d+) blocks, (\d+) elsewhere, peak (\d+) KiB", said, re.MULTILINE)
    return {name: (int(blocks), int(elsewhere), int(peak)) for name, blocks, elsewhere, peak in lines}


def percent(figures: Figures, name: str) -> float:
    blocks, elsewhere, _ = figures[name]
    return 100 * elsewhere / blocks


def judge(machine: Machine, figures: Figures | None) -> int:
    """Says whether what the machine found is as it should be; 0 if it is."""
    if figures is None or set(figures) != set(LIMITS):
        print(f"failed: {machine.name}")
        return 1
    for name in LIMITS:
        proof("machines", f"4 NUMA nodes, emulated, {machine.name}", f"blocks looked at, {name}", figures[name][0])
    too_many = [name for name in LIMITS if percent(figures, name) > LIMITS[name]]
    print(f"failed: {machine.name}: too many of {', '.join(too_many)}" if too_many else f"passed: {machine.name}")
    return 1 if too_many else 0


def main() -> int:
    work = folder("numa_machine")
    try:
        machines = [each for each in MACHINES if not NAMES & set(sys.argv) or each.name in sys.argv]
        machines = bootable(machines, SOUND_KIND, work, "g++")
    except MissingError as missing_something:
        print(f"skipped: {missing_something}")
        return SKIPPED
    own = Path(os.environ.get("FREEWAY_BUILD_DIR", ROOT / "build/release")) / "libfreeway.a"
    libraries = [Path(name) for name in sys.argv[1:] if name not in NAMES] or [own]
    seed = os.environ.get("FREEWAY_TEST_SEED", "1")
    found = {(m, library): figures_of(m, library, work, seed) for m in machines for library in libraries}
    print(f"| | {' | '.join(LIMITS)} |\n|---{'|---' * len(LIMITS)}|")
    for (machine, library), figures in found.items():
        if figures is not None:
            cells = [f"{percent(figures, name):.1f} %, {figures[name][2] / 1024:.1f} MiB" for name in LIMITS]
            print(f"| {machine.name}, {library.stem} | {' | '.join(cells)} |")
    return max(judge(machine, found[machine, libraries[-1]]) for machine in machines)


if __name__ == "__main__":
    if platform.machine() != "x86_64":
        print("skipped: not on x86-64: a compiler for it is")
        sys.exit(SKIPPED)
    sys.exit(main())
