# SPDX-License-Identifier: MIT
"""The release archive of a commit is always the same: two clones of the last commit, in other folders, with other
clocks, modes, settings of git's and files that are not committed, give the same bytes. It holds what git has, in order,
with one time, owned by root, in a folder named by the version that CMake has. Exit status 77: this is no git checkout.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
VERSION = os.environ["FREEWAY_VERSION"]
SKIPPED = 77


def output_of(*command: str | Path, **options: object) -> bytes:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **options).stdout


def clone(place: Path) -> Path:
    output_of("git", "clone", "--quiet", "--depth=1", SOURCE.as_uri(), place)
    return place


def archive_of(repository: Path, into: Path, settings: dict[str, str]) -> Path:
    command = [sys.executable, "-B", SOURCE / "packaging/dist.py", "--repository", repository, "--into", into]
    return Path(output_of(*command, env=os.environ | settings, cwd=into.parent).decode().strip())


def disturb(repository: Path) -> None:
    """Changes all that the archive must not show."""
    for setting in ("tar.umask=user", "core.autocrlf=true"):
        name, value = setting.split("=")
        output_of("git", "-C", repository, "config", name, value)
    attributes = repository / ".git/attributes"
    attributes.write_text("*.md export-ignore\n")
    output_of("git", "-C", repository, "config", "core.attributesFile", attributes)
    with (repository / "README.md").open("a") as file:
        file.write("not committed\n")
    (repository / "not_committed.txt").write_text("nor is this\n")
    for path in repository.iterdir():
        os.utime(path, (1, 1))


def check_contents(archive: Path, repository: Path) -> None:
    """The members are git's files, each as git has it."""
    recorded: dict[str, tuple[str, str]] = {}
    for line in output_of("git", "-C", repository, "ls-tree", "-r", "-z", "HEAD").decode().split("\0")[:-1]:
        about, path = line.split("\t", 1)
        mode, _, blob = about.split()
        recorded[path] = (mode, blob)
    committed_s = int(output_of("git", "-C", repository, "log", "-1", "--format=%ct"))
    top = f"freeway-{VERSION}"
    assert archive.name == f"{top}.tar.xz", f"{archive.name}, but CMake's version is {VERSION}"
    found: list[str] = []
    with tarfile.open(archive) as tar:
        for member in tar:
            assert member.mtime == committed_s, f"{member.name} has another time than the commit"
            assert (member.uid, member.gid) == (0, 0), f"{member.name} is owned by {member.uid}"
            assert member.issym() or member.mode & 0o022 == 0, (
                f"{member.name} can be written by others: {member.mode:o}"
            )
            assert member.name == top or member.name.startswith(f"{top}/"), f"{member.name} is outside of {top}"
            if member.isdir():
                continue
            path = member.name.removeprefix(f"{top}/")
            found.append(path)
            # A link's content is where it leads, and it has no mode of its own.
            content = (tar.extractfile(member) or io.BytesIO()).read() if member.isfile() else member.linkname.encode()
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            assert recorded[path][1] == blob, f"{path} is not what was committed"
            kind = "120000" if member.issym() else "100755" if member.mode & 0o100 else "100644"
            assert recorded[path][0] == kind, f"{path} is {kind}"
    assert found == list(recorded), f"files: {set(found) ^ set(recorded) or 'in another order'}"
    assert "debian/control" in recorded, "the packages cannot be built from it"


def main() -> int:
    try:
        output_of("git", "-C", SOURCE, "rev-parse", "--verify", "HEAD", stderr=subprocess.DEVNULL)
    except (FileNotFoundError, subprocess.CalledProcessError):
        print("skipped: no git checkout")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        first = clone(work / "first")
        plain = archive_of(first, work / "out", {})
        time.sleep(1.1)  # the clock of archives counts seconds
        os.umask(0o077)
        second = clone(work / "a folder with another name" / "second")
        disturb(second)
        other = archive_of(second, work / "elsewhere", {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "HOME": "/nowhere"})
        assert plain.read_bytes() == other.read_bytes(), "two clones of one commit gave different archives"
        digest = hashlib.sha256(plain.read_bytes()).hexdigest()
        assert plain.with_name(f"{plain.name}.sha256").read_text() == f"{digest}  {plain.name}\n"
        check_contents(plain, first)
        print(f"{plain.name}: {plain.stat().st_size} bytes, {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
