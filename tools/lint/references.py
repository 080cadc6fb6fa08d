# SPDX-License-Identifier: MIT
"""References: a file that a comment of the library or a document names must exist.

"Checked tests/unit/arena_test.cc" is a promise; a file that was renamed or never written breaks it silently.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.lint.source import CXX_SUFFIXES, Finding, library_files, split_lines, tracked_files

_NAMED = re.compile(
    r"\b((?:src|tests|docs|bench|tools|include|cmake|scripts)/[\w./-]*\w\.(?:h|cc|c|S|py|md|txt|cmake|svg))\b"
)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


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
            for link in _LINK.findall(text):
                if "://" not in link and not (root / path.parent / link).exists():
                    findings.append(Finding(str(path), number, f"a link to {link}, which does not exist"))
    return findings


def _check_named(root: Path, path: Path, number: int, text: str) -> list[Finding]:
    missing = [name for name in _NAMED.findall(text) if not (root / name).exists()]
    return [Finding(str(path), number, f"names {name}, which does not exist") for name in missing]
