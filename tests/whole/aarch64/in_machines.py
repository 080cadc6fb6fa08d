# SPDX-License-Identifier: MIT
"""Runs tests in emulated aarch64 machines that qemu-user, under which `make aarch64` runs the others, cannot run.

    in_machines.py               in all machines
    in_machines.py 16k           in some
    in_machines.py shared_room   some of the programs

They start themselves anew, or have shared heaps: qemu-user's madvise says yes to what it does not do. The aarch64
preset builds them (NOT_EMULATED in cmake/FreewayTest.cmake). A machine has them with the cross compiler's C library,
and tests/whole/matrix/init.c runs one after the other:

    cpu_id   pages of 4 KiB, a kernel before mm_cid
    16k      pages of 16 KiB, a newer one

The exit status is 1 if a program failed, 77 where a tool or the network is missing. What is downloaded and built stays
in $FREEWAY_BUILD_DIR/aarch64_machines for the next time.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "support"), str(HERE.parent / "machines"), str(HERE.parent / "matrix")]
from emulated import (  # noqa: E402
    BOOT_TRIES,
    ROOT,
    SKIPPED,
    Kind,
    Machine,
    MissingError,
    archive,
    bootable,
    console_of,
    folder,
    kernel_of,
    output_of,
)
from matrix import rows_of  # noqa: E402
from programs import build_init  # noqa: E402
from proof import proof  # noqa: E402
from roots import ARM64  # noqa: E402
from virtual_machine import MACHINES as ALL_MACHINES  # noqa: E402

BOOT_TIMEOUT_S = 1800
KIND = Kind("arm64", "qemu-system-aarch64", ("-M", "virt", "-smp", "2", "-m", "3072"), "ttyAMA0")
MACHINES = [machine for machine in ALL_MACHINES if machine.name in ("cpu_id", "16k")]
LIBRARIES = ("ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6")


@dataclass(frozen=True)
class Program:
    """A test's program, by its target of the aarch64 preset."""

    name: str
    arguments: tuple[str, ...] = ()
    limit_s: int = 300


PROGRAMS = (
    Program("abi_bad_input"),
    Program("abi_hardened"),
    Program("abi_heap"),
    Program("abi_left_behind"),
    # Without those in which thousands of allocations are refused, each of which takes a hundredth of a second here.
    Program("abi_limit", ("--gtest_filter=-*ManyThreads*",)),
    Program("abi_memory_refused"),
    Program("abi_options"),
    Program("shared_attach"),
    Program("shared_bad_file"),
    Program("shared_containers"),
    Program("shared_killed", ("20",)),
    Program("shared_refused"),
    Program("shared_room"),
    Program("example_shared_cache", ("--kills", "40", "--watch", "0")),
)


def build_programs(chosen: Iterable[Program], work: Path) -> dict[str, bytes]:
    """The programs and the library, without what debuggers read, by their paths in the machine."""
    build = work / "tests"
    names = [program.name for program in chosen]
    configure = ["cmake", "--preset", "aarch64", "-S", ROOT, "-B", build]
    compile_all = ["cmake", "--build", build, "-j2", "--target", "freeway_shared", "freeway_shared_heap", *names]
    for command in (configure, compile_all):
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    files = {}
    for place, path in [
        *((f"roots/here/lib/{name}", build / name) for name in ("libfreeway.so.0", "libfreeway-shared.so.0")),
        *((f"programs/{name}", path) for name in names for path in (build / "tests").rglob(name) if path.is_file()),
    ]:
        stripped = work / "stripped"
        subprocess.run(["aarch64-linux-gnu-strip", "-g", path, "-o", stripped], check=True)
        files[place] = stripped.read_bytes()
    return files


def build_image(chosen: Iterable[Program], work: Path, seed: str) -> Path:
    """The initial file system: the first process, the plan, the programs, and the only root that they all have."""
    files = build_programs(chosen, work)
    for library in LIBRARIES:
        where = output_of(["aarch64-linux-gnu-gcc", f"-print-file-name={library}"], work).strip()
        files[f"roots/here/lib/{library}"] = Path(where).read_bytes()
    variables = f"LD_LIBRARY_PATH=/lib,FREEWAY_TEST_SEED={seed}"
    lines = [
        "\t".join(["here", each.name, str(each.limit_s), variables, f"/programs/{each.name}", *each.arguments])
        for each in chosen
    ]
    files["plan"] = ("\n".join(lines) + "\n").encode()
    files["init"] = build_init(ARM64, work)
    folders = {str(parent) for path in files for parent in Path(path).parents if str(parent) != "."}
    members = [(name, 0o040755, b"") for name in sorted(folders)]
    members += [(name, 0o100755, content) for name, content in files.items()]
    image = work / "in_machines_image"
    image.write_bytes(archive(members))
    return image


def faults_of(machine: Machine, image: Path, chosen: Iterable[Program], work: Path) -> list[str]:
    """What was not as it should be in the machine."""
    for _ in range(BOOT_TRIES):  # as in emulated.boot()
        said = console_of(machine, KIND, kernel_of(machine, KIND, work), image, work, "", BOOT_TIMEOUT_S)
        if "== begin" in said or "Kernel panic" not in said:
            break
    statuses = {name: status for row in rows_of(machine.name, said) for name, status in row.status.items()}
    passed = [program.name for program in chosen if statuses.get(program.name) == "0"]
    tests = sum(map(int, re.findall(r"\[  PASSED  \] \S*?(\d+) test", said)))
    proof("machines", f"aarch64, emulated, {machine.name}", "programs of tests", len(passed))
    proof("machines", f"aarch64, emulated, {machine.name}", "tests in them", tests)
    return [f"{each.name}: {statuses.get(each.name, 'was not run')}" for each in chosen if each.name not in passed]


def main() -> int:
    machines = [machine for machine in MACHINES if machine.name in sys.argv[1:]] or MACHINES
    chosen = [program for program in PROGRAMS if program.name in sys.argv[1:]] or list(PROGRAMS)
    work = folder("aarch64_machines")
    try:
        machines = bootable(machines, KIND, work, "aarch64-linux-gnu-g++", "cmake", "ninja")
    except MissingError as missing_something:
        print(f"skipped: {missing_something}")
        return SKIPPED
    image = build_image(chosen, work, os.environ.get("FREEWAY_TEST_SEED", str(random.randrange(1 << 32))))
    faults = [f"{each.name}: {fault}" for each in machines for fault in faults_of(each, image, chosen, work)]
    print("\n".join(faults) or f"passed: {', '.join(machine.name for machine in machines)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
