# SPDX-License-Identifier: MIT
"""Manual pages: no word of a sentence is taken for a macro, and what mandoc has to say against them.

In a line that begins with a macro of mdoc(7), every word that is the name of one is one: `.Pq In a process` is an
include file called `a`, and `.Ql - is standard output` quotes all of it. No formatter warns of that.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tools.lint.source import Finding, tracked_files

FOLDER = Path("docs/man")
ENGLISH = {"In", "At", "An", "Do", "So"}  # words that are macros
PUNCTUATION = re.compile(r"[.,:;()\[\]?!]+")
MACRO = re.compile(r"[A-Z][a-z]{1,2}")


def check(root: Path) -> list[Finding]:
    """All faults of manual pages under `root`."""
    pages = [path for path in tracked_files(root) if path.parent == FOLDER and re.fullmatch(r"\.\d", path.suffix)]
    return [finding for page in pages for finding in (*_words(root, page), *_said_by_mandoc(root, page))]


def _words(root: Path, page: Path) -> Iterator[Finding]:
    for number, line in enumerate((root / page).read_text().splitlines(), 1):
        if not re.match(r"\.[A-Z][a-z]", line):
            continue
        words = line[1:].split()
        for at, word in enumerate(words):
            if at > 0 and word in ENGLISH:
                yield Finding(str(page), number, f"'{word}' is a macro here: put the sentence into a line of its own")
            if word == "Ql" and (quoted := _quoted(words[at + 1 :])):
                yield Finding(str(page), number, f"Ql quotes all of: {quoted}")


def _quoted(words: list[str]) -> str:
    """What Ql quotes, if that is a sentence or one goes on behind it; empty: a name or a command."""
    rest = [each for each in words if not PUNCTUATION.fullmatch(each)]
    end = next((at for at, each in enumerate(rest) if MACRO.fullmatch(each) and each != "No"), len(rest))
    return " ".join(rest[:end]) if end > 2 or "No" in rest[:end] else ""


def _said_by_mandoc(root: Path, page: Path) -> Iterator[Finding]:
    if shutil.which("mandoc") is None:
        return
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", page], cwd=root, capture_output=True, text=True, check=False
    )
    for line in done.stdout.splitlines():
        if match := re.match(r"mandoc: [^:]+:(\d+):\d+: (.*)", line):
            yield Finding(str(page), int(match[1]), match[2])
