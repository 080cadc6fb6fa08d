# SPDX-License-Identifier: MIT
#
# git.py: git gc on a repository that is made for it: some hundred commits of a growing tree. Making it is not
# measured. One operation is one object. Checksum: the names, types and sizes of all objects afterwards, which git
# computes from their contents.
"""git gc of a generated repository."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from driver import arguments, digest, environment, fail, program, report, run, scaled

COMMITS = 700
FILES = 150


def history(commits: int) -> bytes:
    """A stream for git fast-import: each commit changes some lines of a few files."""
    source = random.Random(2005)
    words = ["".join(source.choices("abcdefghiklmnoprstuw", k=source.randint(2, 10))) for _ in range(4000)]
    files = [[" ".join(source.choices(words, k=9)) for _ in range(source.randint(20, 200))] for _ in range(FILES)]
    out: list[str] = []
    for commit in range(commits):
        message = f"Change {commit}"
        out.append(f"commit refs/heads/main\ncommitter A <a@b> {1_100_000_000 + commit} +0000")
        out.append(f"data {len(message)}\n{message}")
        changed = range(FILES) if commit == 0 else source.sample(range(FILES), 4)
        for number in changed:
            lines = files[number]
            for _ in range(3):
                lines[source.randrange(len(lines))] = " ".join(source.choices(words, k=9))
            lines.insert(source.randrange(len(lines)), words[commit % len(words)])
            text = "\n".join(lines)
            out.append(f"M 100644 inline folder{number % 9}/file{number}\ndata {len(text)}\n{text}")
    return ("\n".join(out) + "\n").encode()


def git(command: list[str], folder: Path, data: bytes | None = None) -> bytes:
    """An unmeasured git."""
    done = subprocess.run(command, cwd=folder, env=settings(), input=data, capture_output=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(command)}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def settings() -> dict[str, str]:
    """No configuration but the repository's."""
    return {**environment(), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def main() -> None:
    """Makes the repository, collects, checks."""
    options = arguments(__doc__)
    program_path = program("git", "git")
    folder = Path("repository").absolute()
    folder.mkdir()
    git([program_path, "init", "-q", "-b", "main"], folder)
    # Two threads on every machine: the packs, and so the work, depend on their number.
    git([program_path, "config", "pack.threads", "2"], folder)
    git([program_path, "fast-import", "--quiet", "--depth=1"], folder, history(scaled(COMMITS, options.shrink)))
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    used = run([program_path, "gc", "--quiet", "--aggressive", "--prune=now"], env=quiet, cwd=folder)
    objects = git([program_path, "cat-file", "--batch-check", "--batch-all-objects"], folder)
    git([program_path, "fsck", "--full", "--strict"], folder)
    report(ops=objects.count(b"\n"), used=used, checksum=digest(objects))


if __name__ == "__main__":
    main()
