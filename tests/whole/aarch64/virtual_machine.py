# SPDX-License-Identifier: MIT
"""Runs sections_program.cc in emulated aarch64 machines, whose kernels have restartable sequences.

qemu-user, under which the aarch64 tests run, has none. This script cross-compiles the static library and the program,
takes Debian's kernels, and boots the program under qemu-system-aarch64 (../machines/emulated.py), one machine after
the other:

    cpu_id   a kernel before mm_cid: the sections that go by the CPU's number
    mm_cid   a newer one: those that go by the concurrency id
    16k      the same with pages of 16 KiB
    broken   one that does not restart preempted sections: the library must use spare slabs
    mended   one that does again; what it registers for rseq, and so what vfork must tell it, is longer than before

A machine passes if its console says PASSED. The exit status is 77 (skipped) where a tool or the network is missing.
What is downloaded stays in $FREEWAY_BUILD_DIR/aarch64_machines for the next time.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parents[1] / "support"), str(HERE.parent / "machines")]
from emulated import Kind, Machine, boot, run  # noqa: E402
from proof import proof  # noqa: E402

BOOT_TIMEOUT_S = 900
KIND = Kind("arm64", "qemu-system-aarch64", ("-M", "virt", "-smp", "4", "-m", "1024"), "ttyAMA0")
CORTEX = ("-cpu", "cortex-a72")
MACHINES = (
    Machine("cpu_id", "bookworm", r"linux-image-6\.1\.[-\w.+]*-cloud-arm64", "indexed by cpu_id", CORTEX),
    Machine("mm_cid", "trixie", r"linux-image-6\.12\.[-\w.+]*-cloud-arm64", "indexed by mm_cid", CORTEX),
    Machine(
        "16k",
        "trixie",
        r"linux-image-6\.12\.[-\w.+]*-arm64-16k",
        "indexed by mm_cid",
        ("-cpu", "max,pauth-impdef=on"),
    ),
    Machine("broken", "trixie-backports", r"linux-image-7\.0\.(9|1[0-3])\+[-\w.+]*-cloud-arm64", "spare slabs", CORTEX),
    Machine("mended", "trixie-backports", r"linux-image-7\.1\.[-\w.+]*-cloud-arm64", "indexed by mm_cid", CORTEX),
)


def build_program(work: Path) -> Path:
    library = work / "library"
    configure = ["cmake", "--preset", "aarch64", "-S", ROOT, "-B", library, "-DFREEWAY_BUILD_TESTS=OFF"]
    compile_program = ["aarch64-linux-gnu-g++", "-std=c++20", "-O2", "-g", "-static", "-pthread", "-fno-builtin-malloc"]
    compile_program += ["-fno-builtin-free"]
    for folder_of_headers in (".", "include", "tests", "src"):
        compile_program += ["-I", ROOT / folder_of_headers]
    compile_program += [HERE / "sections_program.cc", library / "libfreeway.a", "-o", work / "sections_program"]
    build = ["cmake", "--build", library, "--target", "freeway_static"]
    for command in (configure, build, compile_program):
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return work / "sections_program"


def passes(machine: Machine, image: Path, work: Path, seed: str) -> bool:
    said = boot(machine, KIND, image, work, f"FREEWAY_TEST_SEED={seed}", BOOT_TIMEOUT_S)
    if said is None:
        return False
    for what, pattern in (
        ("instructions interrupted", r"every_instruction: (\d+) instructions"),
        ("operations", r"many_threads: (\d+) operations"),
    ):
        for figure in re.findall(pattern, said):
            proof("machines", f"aarch64, emulated, {machine.name}", what, int(figure))
    return True


if __name__ == "__main__":
    tools = ["aarch64-linux-gnu-g++", "cmake", "ninja"]
    sys.exit(run(MACHINES, KIND, "aarch64_machines", tools, build_program, passes))
