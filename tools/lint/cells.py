# SPDX-License-Identifier: MIT
"""Cells: in pages for users a cell of a table is read at a glance: it has at most 25 words.

A piece of code counts as one word, the target of a link and the name of a test ([sig]) as none. More belongs below the
table, or on the page that the cell links to.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.lint.source import Finding

MOST = 25
PAGES = ("README.md", "GUARANTEES.md", "SECURITY.md", "docs/*.md")
FROM_THE_PROGRAM = {Path("docs/options.md")}  # its texts are the program's own

_CODE = re.compile(r"`[^`]+`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_NAME_OF_TEST = re.compile(r"\[[a-z-]+\]")
_FENCE = re.compile(r" {0,3}(```|~~~)")


def words(cell: str) -> int:
    """How many a reader reads."""
    text = _NAME_OF_TEST.sub("", _LINK.sub(r"\1", _CODE.sub("x", cell)))
    return sum(any(character.isalnum() for character in word) for word in text.split())


def check(root: Path) -> list[Finding]:
    """All cells with more."""
    findings = []
    pages = {path.relative_to(root) for pattern in PAGES for path in root.glob(pattern)} - FROM_THE_PROGRAM
    for path in sorted(pages):
        fenced = False
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            fenced ^= bool(_FENCE.match(line))
            if fenced or not line.startswith("|"):
                continue
            for cell in line.strip("|").split("|"):
                if (count := words(cell)) > MOST:
                    message = f"a cell of {count} words, and {MOST} are what is read at a glance: {cell.strip()[:40]}…"
                    findings.append(Finding(str(path), number, message))
    return findings
