# SPDX-License-Identifier: MIT
"""References: a file that a comment of the library or a document names must exist, and so must a link's heading.

"Checked tests/pages/arena_test.cc" is a promise; a file that was renamed or never written breaks it silently.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from tools.lint.source import CXX_SUFFIXES, Finding, library_files, split_lines, tracked_files

_NAMED = re.compile(
    r"\b((?:src|papers|shared|tests|docs|bench|tools|include|cmake|scripts|packaging)/[\w./-]*\w\.(?:h|cc|c|S|py|md|txt|cmake|svg))\b"
)
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"#{1,6} +(.*)")
_OWN_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")


def check(root: Path) -> list[Finding]:
    """All references under `root` that lead nowhere."""
    findings = []
    for path in library_files(root):
        if path.suffix in CXX_SUFFIXES:
            for line in split_lines((root / path).read_text()):
                findings += _check_named(root, path, line.number, line.comment)
    for path in tracked_files(root):
        if path.suffix != ".md":
            continue
        for number, text in enumerate((root / path).read_text().splitlines(), 1):
            findings += _check_named(root, path, number, _LINK.sub("", text))
            for link, anchor in _LINK.findall(text):
                if "://" in link or not link + anchor:
                    continue
                target = (root / path.parent / link).resolve() if link else root / path
                if not target.exists():
                    findings.append(Finding(str(path), number, f"a link to {link}, which does not exist"))
                elif anchor and target.suffix == ".md" and anchor not in anchors_of(target):
                    findings.append(Finding(str(path), number, f"a link to {link}#{anchor}, which no heading has"))
    return findings


def slug(heading: str) -> str:
    """What GitHub makes of a heading for links to it."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


@functools.cache
def anchors_of(path: Path) -> frozenset[str]:
    """What a link may lead to within a document: its headings, the second of a name with -1, and its own anchors."""
    anchors: set[str] = set()
    fence = ""
    for line in path.read_text().splitlines():
        marks = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if marks and (not fence or line.strip() == fence):
            fence = "" if fence else marks[1]
        heading = None if fence else _HEADING.match(line)
        if heading:
            wanted = slug(heading[1])
            counted = (f"{wanted}-{number}" for number in range(1, 1000))
            anchors.add(wanted if wanted not in anchors else next(name for name in counted if name not in anchors))
        anchors.update(_OWN_ANCHOR.findall(line))
    return frozenset(anchors)


def _check_named(root: Path, path: Path, number: int, text: str) -> list[Finding]:
    missing = [name for name in _NAMED.findall(text) if not (root / name).exists()]
    return [Finding(str(path), number, f"names {name}, which does not exist") for name in missing]
