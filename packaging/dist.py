# SPDX-License-Identifier: MIT
"""Writes the release archive of the last commit, freeway-VERSION.tar.xz: the same commit gives the same bytes.

    dist.py                      into build/dist
    dist.py --into FOLDER        elsewhere
    dist.py --repository FOLDER  of another checkout

It holds what git has of the commit, in git's order and with the commit's time, whatever lies in the working tree and
however git, the clock and the file modes are set. The version is the public header's, which CMake reads, too.
Prints the archive's path; its SHA-256 goes into a file beside it.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = "include/freeway/freeway.h"
# What users and systems set for themselves, and what would change the bytes.
SETTINGS = ("tar.umask=0022", "core.autocrlf=false", "core.eol=lf", "core.attributesFile=/dev/null")


class DistError(Exception):
    """Why there is no archive."""


def git(repository: Path, *arguments: str) -> bytes:
    """What a git command says."""
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    command = ["git", *settings, "-C", str(repository), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=os.environ | {"GIT_ATTR_NOSYSTEM": "1"})
    except FileNotFoundError:
        raise DistError("the archive is made by git, which is missing") from None
    if done.returncode != 0:
        raise DistError(f"{repository}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def version_of(header: str) -> str:
    """The version that the public header has."""
    found = dict(re.findall(r"^#define FREEWAY_VERSION_(MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE))
    if len(found) != 3:
        raise DistError(f"{HEADER} has no version")
    return ".".join(found[part] for part in ("MAJOR", "MINOR", "PATCH"))


def write_archive(repository: Path, into: Path) -> Path:
    """The archive of the repository's last commit, in the folder `into`."""
    commit = git(repository, "rev-parse", "--verify", "HEAD^{commit}").decode().strip()
    version = version_of(git(repository, "show", f"{commit}:{HEADER}").decode())
    name = f"freeway-{version}"
    tar = git(repository, "archive", "--format=tar", f"--prefix={name}/", commit)
    packed = lzma.compress(tar, preset=6)
    into.mkdir(parents=True, exist_ok=True)
    place = into / f"{name}.tar.xz"
    place.write_bytes(packed)
    place.with_name(f"{place.name}.sha256").write_text(f"{hashlib.sha256(packed).hexdigest()}  {place.name}\n")
    return place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, default=ROOT)
    parser.add_argument("--into", type=Path, default=ROOT / "build/dist")
    arguments = parser.parse_args()
    try:
        if git(arguments.repository, "status", "--porcelain"):
            print("dist: what is not committed is left out", file=sys.stderr)
        place = write_archive(arguments.repository, arguments.into)
    except DistError as fault:
        print(f"dist: {fault}", file=sys.stderr)
        return 1
    print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
