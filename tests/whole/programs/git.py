# SPDX-License-Identifier: MIT
#
# git under the preload: makes a repository of a few thousand objects, clones it, repacks it aggressively (threads, big
# buffers, mmap), checks it, and reads all history back. What git says about it must be the same without the preload.
"""git: import, clone, gc --aggressive, fsck, history."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from preload import main, need, prove_preload, require_same, succeed

QUIET = ["-c", "advice.detachedHead=false", "-c", "gc.auto=0"]


def history(commits: int) -> str:
    """A stream for git fast-import: `commits` commits on two branches, each changing a few of 60 files."""
    source = random.Random(2005)
    files: dict[str, list[str]] = {}
    lines: list[str] = []
    for number in range(1, commits + 1):
        branch = "main" if number % 5 else "side"
        lines.append(f"commit refs/heads/{branch}\nmark :{number}")
        lines.append(f"committer A Person <a@example.org> {1_000_000_000 + 60 * number} +0000")
        message = f"change {number}: " + " ".join(source.choices(["why", "what", "how", "when"], k=12))
        lines.append(f"data {len(message)}\n{message}")
        if number == 5:
            lines.append("from :4")
        if number % 50 == 0 and branch == "side":
            lines.append(f"merge :{number - 1}")
        for _ in range(source.randint(1, 6)):
            name = f"dir{source.randint(0, 7)}/file{source.randint(0, 59)}.txt"
            text = files.setdefault(name, [f"{name} line {i} {source.getrandbits(64):x}" for i in range(150)])
            text[source.randrange(len(text))] = f"changed by {number}: {source.getrandbits(128):x}"
            body = "\n".join(text)
            lines.append(f"M 100644 inline {name}\ndata {len(body)}\n{body}")
        lines.append("")
    return "\n".join(lines) + "\ndone\n"


def story(folder: Path, preload: bool, stream: str) -> str:
    """Everything that git says about the repository on its way."""
    git = need("git", "git")
    heard: list[str] = []

    def tell(*words: str, where: str = ".", stdin: str = "") -> None:
        outcome = succeed([git, *QUIET, *words], preload=preload, cwd=folder / where, stdin=stdin)
        heard.append(f"$ git {' '.join(words)}\n{outcome.out}")

    folder.mkdir()
    tell("init", "--quiet", "--bare", "--initial-branch=main", "origin")
    tell("fast-import", "--quiet", "--done", where="origin", stdin=stream)
    tell("clone", "--quiet", "--no-local", "origin", "work")
    tell("gc", "--aggressive", "--prune=now", "--quiet", where="work")
    tell("fsck", "--full", "--strict", where="work")
    tell("repack", "-a", "-d", "-q", "--threads=2", "--window=20", where="work")
    tell("verify-pack", "-s", *sorted(str(p) for p in folder.glob("origin/objects/pack/*.idx")), where="work")
    tell("rev-list", "--objects", "--all", where="work")
    tell("log", "--stat", "--topo-order", "--format=%H %s", "main", where="work")
    tell("blame", "-s", "main", "--", "dir1/file1.txt", where="work")
    tell("grep", "-c", "changed by", "main", where="work")
    tell("diff", "--stat", "main", "origin/side", where="work")
    # Names under .git/objects/pack depend on how threads shared the work; the objects do not.
    return "\n".join(heard)


def git(folder: Path) -> None:
    """The same story without and with the preload."""
    commits = 3000 if "long" in sys.argv[1:] else 300
    prove_preload([need("git", "git"), "--version"])
    stream = history(commits)
    plain, preloaded = (story(folder / str(preload), preload, stream) for preload in (False, True))
    plain = plain.replace(str(folder / "False"), "")
    require_same("what git says", plain, preloaded.replace(str(folder / "True"), ""))


if __name__ == "__main__":
    main(git)
