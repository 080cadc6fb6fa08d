# SPDX-License-Identifier: MIT
"""Shared heaps on disks that get full (disk.cc), of several file systems, each in a file of its own.

    disks.py PROGRAM             all of them
    disks.py PROGRAM ext4 xfs    some

Needs root, loop devices and the tools that make the file systems; what is missing is left out. The exit status is 77 if
nothing is left. Not among them: file systems that copy on write (docs/decisions/050-shared-heap.md).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from proof import proof

SKIPPED = 77
LIMIT_S = 300
# A mount of its own, which is gone with the commands.
COMMANDS = """
mount -o "loop$2" "$1/image" "$1/disk"
"$3" "$1/disk"
umount "$1/disk"
mount -o "loop$2" "$1/image" "$1/disk"
"$3" "$1/disk" again
"""


@dataclass(frozen=True)
class Kind:
    """A file system: how it is made and mounted."""

    name: str
    make: tuple[str, ...]
    mebibytes: int = 64
    mount: str = ""


KINDS = (
    Kind("ext4", ("mkfs.ext4", "-q", "-m", "0")),
    Kind("ext4, blocks of 1 KiB", ("mkfs.ext4", "-q", "-m", "0", "-b", "1024")),
    Kind("ext4, clusters of 1 MiB", ("mkfs.ext4", "-q", "-m", "0", "-O", "bigalloc", "-C", "1048576"), 200),
    Kind("ext4, no delayed allocation", ("mkfs.ext4", "-q", "-m", "0"), mount=",nodelalloc"),
    Kind("ext3", ("mkfs.ext3", "-q", "-m", "0")),
    Kind("xfs", ("mkfs.xfs", "-q"), 320),
)


def try_on(kind: Kind, program: str) -> str:
    """What went wrong there; "missing" if it cannot be tried here."""
    if shutil.which(kind.make[0]) is None:
        return "missing"
    with tempfile.TemporaryDirectory(prefix="freeway-disk-") as name:
        place = Path(name)
        (place / "disk").mkdir()
        with (place / "image").open("wb") as image:
            image.truncate(kind.mebibytes << 20)
        subprocess.run([*kind.make, place / "image"], check=True, capture_output=True)
        probe = ["unshare", "--mount", "mount", "-o", f"loop{kind.mount}", place / "image", place / "disk"]
        if subprocess.run(probe, check=False, capture_output=True).returncode != 0:
            return "missing"
        command = ["unshare", "--mount", "sh", "-ec", COMMANDS, "sh", place, kind.mount, program]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    return "" if done.returncode == 0 and done.stdout == "made\nfound\n" else f"{done.stdout}{done.stderr}"


def main() -> int:
    program, *names = sys.argv[1:]
    if os.geteuid() != 0:
        print("skipped: needs root")
        return SKIPPED
    chosen = [kind for kind in KINDS if not names or kind.name in names]
    results = {kind.name: try_on(kind, program) for kind in chosen}
    tried = {name: said for name, said in results.items() if said != "missing"}
    for name, said in results.items():
        print(f"{name}: {said.strip() or 'passed'}")
    if not tried:
        return SKIPPED
    proof("machines", "shared heaps on full disks", "file systems", len(tried))
    return 1 if any(tried.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
