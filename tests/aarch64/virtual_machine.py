# SPDX-License-Identifier: MIT
"""Runs sections_program.cc in emulated aarch64 machines, whose kernels have restartable sequences.

qemu-user, under which the aarch64 tests run, has none. This script cross-compiles the static library and the program,
takes Debian's kernels (apt-get download, in a package state of its own: the system's is not touched), packs the program
as the init process of an initial file system and boots it under qemu-system-aarch64, one machine after the other:

    cpu_id   a kernel before mm_cid: the sections that go by the CPU's number
    mm_cid   a newer one: those that go by the concurrency id
    16k      the same with pages of 16 KiB

A machine passes if its console says PASSED. The exit status is 77 (skipped) where a tool or the network is missing.
What is downloaded stays in $FREEWAY_BUILD_DIR/aarch64_machines for the next time.
"""

import functools
import gzip
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = Path(os.environ.get("FREEWAY_BUILD_DIR", ROOT / "build/release")) / "aarch64_machines"
TOOLS = ("qemu-system-aarch64", "aarch64-linux-gnu-g++", "cmake", "ninja", "apt-get", "dpkg-deb")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SKIPPED = 77
BOOT_TIMEOUT_S = 900


@dataclass(frozen=True)
class Machine:
    name: str
    suite: str  # of Debian
    package: str  # regular expression
    says: str  # on the console: which path is taken
    processor: str = "cortex-a72"


MACHINES = (
    Machine("cpu_id", "bookworm", r"linux-image-6\.1\.[-\w.+]*-cloud-arm64", "indexed by cpu_id"),
    Machine("mm_cid", "trixie", r"linux-image-6\.12\.[-\w.+]*-cloud-arm64", "indexed by mm_cid"),
    Machine("16k", "trixie", r"linux-image-6\.12\.[-\w.+]*-arm64-16k", "indexed by mm_cid", "max,pauth-impdef=on"),
)


class MissingError(Exception):
    """Something that this needs is not there."""


def output_of(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> str:
    everything = os.environ | (environment or {})
    done = subprocess.run(command, capture_output=True, text=True, env=everything, cwd=WORK, check=False)
    if done.returncode != 0:
        raise MissingError(f"{' '.join(map(str, command))}: {done.stderr.strip()[-500:]}")
    return done.stdout


def archive_address() -> str:
    """Where this system gets Debian's packages from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]
    found = [line for line in output_of(command).split() if line.rstrip("/").endswith("/debian")]
    if not found:
        raise MissingError("apt's sources name no Debian archive")
    return found[0]


@functools.cache
def package_state() -> dict[str, str]:
    """An apt of our own, for the other architecture: the environment that makes apt-get use it."""
    state = WORK / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    address = archive_address()
    suites = sorted({machine.suite for machine in MACHINES})
    lines = [f"deb [arch=arm64 signed-by={KEYRING}] {address} {suite} main\n" for suite in suites]
    (state / "sources.list").write_text("".join(lines))
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Dir::Etc::SourceList": state / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Acquire::Languages": "none",
    }
    (state / "apt.conf").write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    environment = {"APT_CONFIG": str(state / "apt.conf")}
    output_of(["apt-get", "update"], environment)
    return environment


def kernel_of(machine: Machine) -> Path:
    folder = WORK / machine.name
    for found in folder.glob("boot/vmlinuz-*"):
        return found
    environment = package_state()
    names = output_of(["apt-cache", "pkgnames", "linux-image-6"], environment).split()
    fitting = sorted(name for name in names if re.fullmatch(machine.package, name))
    if not fitting:
        raise MissingError(f"{machine.suite} has no kernel {machine.package}")
    output_of(["apt-get", "download", fitting[-1]], environment)
    (package,) = WORK.glob(f"{fitting[-1]}_*.deb")
    unpacked = WORK / f"{machine.name}.unpacked"
    output_of(["dpkg-deb", "-x", package, unpacked])
    folder.mkdir(exist_ok=True)
    (unpacked / "boot").rename(folder / "boot")  # its kernel is there completely or not at all
    shutil.rmtree(unpacked)
    package.unlink()
    (kernel,) = folder.glob("boot/vmlinuz-*")
    return kernel


def build_program() -> Path:
    library = WORK / "library"
    configure = ["cmake", "--preset", "aarch64", "-S", ROOT, "-B", library, "-DFREEWAY_BUILD_TESTS=OFF"]
    compile_program = ["aarch64-linux-gnu-g++", "-std=c++20", "-O2", "-g", "-static", "-pthread", "-fno-builtin-malloc"]
    compile_program += ["-fno-builtin-free", "-I", ROOT / "include", HERE / "sections_program.cc"]
    compile_program += [library / "libfreeway.a", "-o", WORK / "sections_program"]
    build = ["cmake", "--build", library, "--target", "freeway_static"]
    for command in (configure, build, compile_program):
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return WORK / "sections_program"


def initial_file_system(program: Path) -> Path:
    """A cpio archive ("newc") with the program as /init: header, name, contents, each padded to 4 bytes."""

    def member(name: str, mode: int, content: bytes) -> bytes:
        fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)

    image = WORK / "initial_file_system.gz"
    archive = member("init", 0o100755, program.read_bytes()) + member("TRAILER!!!", 0, b"")
    image.write_bytes(gzip.compress(archive, 1))
    return image


def boots_and_passes(machine: Machine, image: Path, seed: str) -> bool:
    settings = f"console=ttyAMA0 quiet panic=-1 FREEWAY_VERBOSE=1 FREEWAY_TEST_SEED={seed}"
    command = ["qemu-system-aarch64", "-M", "virt", "-cpu", machine.processor, "-smp", "4", "-m", "1024", "-nographic"]
    command += ["-no-reboot", "-nic", "none", "-kernel", str(kernel_of(machine)), "-initrd", str(image)]
    print(f"== {machine.name}", flush=True)
    console = WORK / f"{machine.name}.console"
    timed_out = False
    with console.open("wb") as output:
        try:
            subprocess.run(
                [*command, "-append", settings],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=BOOT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            timed_out = True
    said = console.read_text(errors="replace")
    print(said, f"not finished after {BOOT_TIMEOUT_S} s" if timed_out else "", flush=True)
    return re.search(r"^PASSED\r?$", said, re.MULTILINE) is not None and machine.says in said


def main() -> int:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if not KEYRING.exists():
        missing.append(str(KEYRING))
    if missing:
        print(f"skipped: {', '.join(missing)} missing")
        return SKIPPED
    WORK.mkdir(parents=True, exist_ok=True)
    seed = os.environ.get("FREEWAY_TEST_SEED", str(random.randrange(1 << 32)))
    chosen = [machine for machine in MACHINES if machine.name in sys.argv[1:] or len(sys.argv) == 1]
    try:
        for machine in chosen:
            kernel_of(machine)
    except MissingError as missing_something:
        print(f"skipped: {missing_something}")
        return SKIPPED
    image = initial_file_system(build_program())
    failed = [machine.name for machine in chosen if not boots_and_passes(machine, image, seed)]
    print(f"failed: {', '.join(failed)}" if failed else f"passed: {', '.join(machine.name for machine in chosen)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
