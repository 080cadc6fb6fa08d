# SPDX-License-Identifier: MIT
#
# What tests of emulated machines share: Debian's packages and kernels, an initial file system, qemu's console.
"""Boots a program as the init process of an emulated machine, under a kernel of Debian's."""

from __future__ import annotations

import functools
import gzip
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES = ("bookworm", "trixie", "trixie-backports")
SKIPPED = 77
BOOT_TRIES = 3


class MissingError(Exception):
    """Something that this needs is not there."""


@dataclass(frozen=True)
class Machine:
    """An emulated machine and the kernel that it boots."""

    name: str
    suite: str  # of Debian
    package: str  # regular expression
    says: str  # on the console: which path is taken
    options: tuple[str, ...] = field(default=())  # of qemu


@dataclass(frozen=True)
class Kind:
    """A processor architecture: what it is called by Debian and by qemu, and where its console is."""

    architecture: str
    emulator: str
    options: tuple[str, ...]
    console: str


def folder(name: str) -> Path:
    """Where downloads and results of the test `name` stay for the next time."""
    work = Path(os.environ.get("FREEWAY_BUILD_DIR", ROOT / "build/release")).resolve() / name
    work.mkdir(parents=True, exist_ok=True)
    return work


def require_tools(*tools: str) -> None:
    """MissingError unless these programs, and what authenticates Debian's archive, are there."""
    missing = [tool for tool in (*tools, "apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if not KEYRING.exists():
        missing.append(str(KEYRING))
    if missing:
        raise MissingError(f"{', '.join(missing)} missing")


def output_of(command: Sequence[str | Path], work: Path, environment: dict[str, str] | None = None) -> str:
    """What a command says; MissingError if it fails."""
    everything = os.environ | (environment or {})
    done = subprocess.run(command, capture_output=True, text=True, env=everything, cwd=work, check=False)
    if done.returncode != 0:
        raise MissingError(f"{' '.join(map(str, command))}: {done.stderr.strip()[-500:]}")
    return done.stdout


def archive_address(work: Path) -> str:
    """Where this system gets Debian's packages from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]
    found = [line for line in output_of(command, work).split() if line.rstrip("/").endswith("/debian")]
    if not found:
        raise MissingError("apt's sources name no Debian archive")
    return found[0]


@functools.cache
def package_state(work: Path, architecture: str, suites: tuple[str, ...] = SUITES) -> dict[str, str]:
    """An apt of our own, also for another architecture: the environment that makes apt-get use it."""
    state = work / "apt"
    for below in ("lists/partial", "cache/archives/partial"):
        (state / below).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    address = archive_address(work)
    lines = [f"deb [arch={architecture} signed-by={KEYRING}] {address} {suite} main\n" for suite in suites]
    (state / "sources.list").write_text("".join(lines))
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
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
    output_of(["apt-get", "update"], work, environment)
    return environment


def version_of(name: str) -> tuple[int, ...]:
    """What the names of kernels are sorted by: their numbers."""
    return tuple(int(number) for number in re.findall(r"\d+", name))


def unpack(package: str, place: Path, environment: dict[str, str]) -> None:
    """Downloads a package, `name` or `name=version`, and unpacks it in `place`; what is there is there completely."""
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        output_of(["apt-get", "download", package], Path(folder), environment)
        (file,) = Path(folder).glob("*.deb")
        output_of(["dpkg-deb", "-x", file, Path(folder) / "unpacked"], place.parent)
        (Path(folder) / "unpacked").rename(place)


def kernel_of(machine: Machine, kind: Kind, work: Path, suites: tuple[str, ...] = SUITES) -> Path:
    """The machine's kernel, downloaded the first time; the system's own packages are not touched."""
    place = work / f"{machine.name}-kernel"
    if not any(place.glob("vmlinuz*")):
        environment = package_state(work, kind.architecture, suites)
        names = output_of(["apt-cache", "pkgnames", "linux-"], work, environment).split()
        fitting = sorted((name for name in names if re.fullmatch(machine.package, name)), key=version_of)
        if not fitting:
            raise MissingError(f"{machine.suite} has no kernel {machine.package}")
        binary = fitting[-1].replace("linux-image-", "linux-binary-")  # newer ones are a package of their own
        unpacked = work / f"{machine.name}-unpacked"
        unpack(binary if binary in names else fitting[-1], unpacked, environment)
        (kernel,) = (path for path in unpacked.rglob("vmlinuz*") if not path.is_symlink())
        place.mkdir(exist_ok=True)
        kernel.rename(place / kernel.name)
        shutil.rmtree(unpacked)
    (kernel,) = place.glob("vmlinuz*")
    return kernel


def can_boot(machine: Machine, kind: Kind, work: Path) -> bool:
    """Whether there is a kernel for the machine: the archive does not keep each one for ever."""
    try:
        kernel_of(machine, kind, work)
    except MissingError as missing_something:
        print(f"left out: {machine.name}: {missing_something}")
        return False
    return True


def bootable(machines: Iterable[Machine], kind: Kind, work: Path, *tools: str) -> list[Machine]:
    """Those of the machines that can be booted; MissingError: none can, or a tool is missing."""
    require_tools(kind.emulator, *tools)
    found = [machine for machine in machines if can_boot(machine, kind, work)]
    if not found:
        raise MissingError("no machine has a kernel")
    return found


def archive(members: Iterable[tuple[str, int, bytes]]) -> bytes:
    """A cpio archive ("newc") of (name, mode, content): header, name, contents, each padded to 4 bytes."""
    parts: list[bytes] = []
    for number, (name, mode, content) in enumerate((*members, ("TRAILER!!!", 0, b"")), 1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        parts += [head, b"\0" * (-len(head) % 4), content, b"\0" * (-len(content) % 4)]
    return b"".join(parts)


def initial_file_system(program: Path, work: Path) -> Path:
    """An archive with the program as /init."""
    image = work / "initial_file_system.gz"
    image.write_bytes(gzip.compress(archive([("init", 0o100755, program.read_bytes())]), 1))
    return image


def boot(machine: Machine, kind: Kind, image: Path, work: Path, settings: str, timeout_s: int) -> str | None:
    """Boots the machine and waits for its end. What its console said, if that has PASSED and the path to be taken.

    Emulated kernels that change their own code as they start up sometimes panic before there is a program: then the
    machine is booted again.
    """
    for _ in range(BOOT_TRIES):
        said = console_of(machine, kind, kernel_of(machine, kind, work), image, work, settings, timeout_s)
        has_begun = "\nFREEWAY_TEST_SEED=" in said or "kill init" in said  # the program: what it says first, or its end
        if has_begun or "Kernel panic" not in said:
            break
    return said if re.search(r"^PASSED\r?$", said, re.MULTILINE) is not None and machine.says in said else None


def console_of(
    machine: Machine, kind: Kind, kernel: Path, image: Path, work: Path, settings: str, timeout_s: int
) -> str:
    """Boots the machine and waits for its end; what its console said."""
    command = [kind.emulator, *kind.options, *machine.options, "-nographic", "-no-reboot", "-nic", "none"]
    command += ["-kernel", str(kernel), "-initrd", str(image)]
    command += ["-append", f"console={kind.console} quiet panic=-1 FREEWAY_STATS=1 {settings}"]
    print(f"== {machine.name}", flush=True)
    console = work / f"{machine.name}.console"
    timed_out = False
    with console.open("wb") as output:
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            timed_out = True
    said = console.read_text(errors="replace")
    print(said, f"not finished after {timeout_s} s" if timed_out else "", flush=True)
    return said


def run(
    machines: Sequence[Machine],
    kind: Kind,
    place: str,
    tools: Sequence[str],
    build_program: Callable[[Path], Path],
    passes: Callable[[Machine, Path, Path, str], bool],
) -> int:
    """The main program: boots the machines that the command line names, or all; the exit status.

    `place` is the folder's name, `tools` what building needs; `passes(machine, image, work, seed)` boots one.
    """
    chosen = [machine for machine in machines if machine.name in sys.argv[1:] or len(sys.argv) == 1]
    work = folder(place)
    try:
        chosen = bootable(chosen, kind, work, *tools)
    except MissingError as missing_something:
        print(f"skipped: {missing_something}")
        return SKIPPED
    seed = os.environ.get("FREEWAY_TEST_SEED", str(random.randrange(1 << 32)))
    image = initial_file_system(build_program(work), work)
    failed = [machine.name for machine in chosen if not passes(machine, image, work, seed)]
    print(f"failed: {', '.join(failed)}" if failed else f"passed: {', '.join(machine.name for machine in chosen)}")
    return 1 if failed else 0
