# SPDX-License-Identifier: MIT
"""Small Debian systems in folders: one of each release, made once by debootstrap, and throw-away copies of it.

Needs root, debootstrap and a Debian archive. What is downloaded stays in build/debian.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/whole/machines"))
from emulated import KEYRING, MissingError, archive_address  # noqa: E402

WORK = ROOT / "build/debian"
RELEASES = ("bookworm", "trixie", "sid")
APT = "apt-get -qy --no-install-recommends"
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}
# What is mounted is gone with the command. Packages that were downloaded once are not downloaded again.
MOUNTS = """
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
mount --bind "$2" "$1/var/cache/apt/archives"
root="$1"
shift 2
exec chroot "$root" "$@"
"""


class FailedError(Exception):
    """A command in a root failed: which one, and what it said last."""


@dataclass(frozen=True)
class System:
    """A Debian system in a folder."""

    release: str
    root: Path

    def run(self, command: str, *, network: bool = False, variables: dict[str, str] | None = None) -> str:
        """What a shell command says in there; FailedError if it fails. The last command's words stay in WORK/log."""
        packages = WORK / "packages" / self.release
        packages.mkdir(parents=True, exist_ok=True)
        spaces = ["--mount", "--pid", "--fork", "--kill-child", *([] if network else ["--net"])]
        settings = [f"{name}={value}" for name, value in (ENVIRONMENT | (variables or {})).items()]
        inside = ["/usr/bin/env", "-i", *settings, "/bin/sh", "-euc", command]
        outside = ["unshare", *spaces, "/bin/sh", "-euc", MOUNTS, "sh", str(self.root), str(packages), *inside]
        done = subprocess.run(outside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        said = done.stdout.decode(errors="replace")
        with (WORK / f"{self.release}.log").open("a") as log:
            log.write(f"== {command}\n{said}")
        if done.returncode != 0:
            raise FailedError(f"{self.release}: exit status {done.returncode} of: {command}\n{said[-6000:]}")
        return said

    def install(self, packages: Sequence[str]) -> None:
        """Installs packages, by name or by file (also patterns), with no more than they depend on."""
        wanted = " ".join(packages)
        self.run(f"{APT} update && {APT} dist-upgrade && {APT} install {wanted}", network=True)


def first_system(release: str) -> System:
    """The release as debootstrap leaves it, made the first time."""
    if os.geteuid() != 0:
        raise MissingError("needs root")
    for tool in ("debootstrap", "unshare"):
        if shutil.which(tool) is None:
            raise MissingError(f"needs {tool}")
    place = WORK / "roots" / release
    if not place.exists():
        print(f"{release}: debootstrap", flush=True)
        WORK.mkdir(parents=True, exist_ok=True)
        unfinished = place.with_name(f"{release}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        options = ["--variant=minbase", f"--keyring={KEYRING}"]
        command = ["unshare", "--mount", "debootstrap", *options, release, str(unfinished), archive_address(WORK)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MissingError(f"debootstrap {release}: {(done.stdout + done.stderr)[-1000:]}")
        unfinished.rename(place)
    return System(release, place)


@contextmanager
def fresh_system(release: str, name: str) -> Iterator[System]:
    """A copy of the release's first system, which is gone afterwards."""
    first = first_system(release)
    place = WORK / "copies" / f"{release}-{name}"
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["cp", "-a", "--reflink=auto", str(first.root), str(place)], check=True)
        shutil.copy("/etc/resolv.conf", place / "etc/resolv.conf")
        # The archive may be a snapshot of an earlier day.
        (place / "etc/apt/apt.conf.d/90snapshot").write_text('Acquire::Check-Valid-Until "false";\n')
        yield System(release, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
