# SPDX-License-Identifier: MIT
"""Optimistic reads: each place that reads what it does not own has a label, and docs/optimistic-reads.md its reason.

A place is a line of src/ with `// OPTIMISTIC: label`. Calls of functions whose name ends in `_unowned` need one, on
their line or the line above. The page's table has a row for each label, which names the files that use it.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.lint.source import CXX_SUFFIXES, Finding, library_files, split_lines

PAGE = Path("docs/optimistic-reads.md")
_LABEL = re.compile(r"\bOPTIMISTIC: ([a-z][a-z ]*[a-z])")
_ROW = re.compile(r"^\| ([a-z][a-z ]*[a-z]) \| (`[^|]*`) \|")
_UNLABELLED = "reads what it does not own, without a comment OPTIMISTIC: label"
_CALL = re.compile(r"(?:\.|->)\w*_unowned\(")


def check(root: Path) -> list[Finding]:
    """Labels without a row, rows without a place, unowned reads without a label."""
    findings: list[Finding] = []
    used: dict[str, set[str]] = {}
    first: dict[tuple[str, str], int] = {}
    for path in library_files(root):
        if path.suffix not in CXX_SUFFIXES:
            continue
        above = ""
        for line in split_lines((root / path).read_text()):
            for label in _LABEL.findall(line.comment):
                used.setdefault(label, set()).add(str(path))
                first.setdefault((label, str(path)), line.number)
            if _CALL.search(line.code) and not _LABEL.search(line.comment) and not _LABEL.search(above):
                findings.append(Finding(str(path), line.number, _UNLABELLED))
            above = line.comment
    listed: dict[str, set[str]] = {}
    rows = (root / PAGE).read_text().splitlines() if (root / PAGE).exists() else []
    for number, text in enumerate(rows, 1):
        if (row := _ROW.match(text)) is None or row.group(1) == "label":
            continue
        label, files = row.group(1), set(re.findall(r"`([^`]+)`", row.group(2)))
        listed[label] = files
        findings += [
            Finding(str(PAGE), number, f"'{label}' is not read in {file}") for file in files - used.get(label, set())
        ]
    for label, files in used.items():
        for file in files - listed.get(label, set()):
            findings.append(Finding(file, first[label, file], f"{PAGE} has no row '{label}' for this file"))
    return findings
