# SPDX-License-Identifier: MIT
"""Hygiene: licence lines, file lengths, names that say nothing, conditions on the machine in the wrong layer, and files
that some program left behind."""

from __future__ import annotations

import re
from pathlib import Path

from tools.lint.source import CXX_SUFFIXES, Finding, library_files, split_lines, tracked_files

MAX_LIBRARY_LINES = 500
LICENCE = "SPDX-License-Identifier: MIT"
SOURCE_SUFFIXES = {".h", ".cc", ".c", ".S", ".py", ".sh", ".cmake", ".map", ".inc", ".v"}
SOURCE_NAMES = {"CMakeLists.txt", "Makefile"}
EMPTY_NAMES = {"utils", "util", "common", "misc", "helpers"}
# What may hold bytes that are no text; and what programs leave where they were started.
BINARY_SUFFIXES = {".gz", ".png"}
BINARY_FOLDERS = {Path("tests/whole/fuzz/corpus")}
LEFT_BEHIND = {".db", ".db-journal", ".sqlite", ".sqlite3", ".log", ".tmp", ".bak", ".orig", ".rej", ".core", ".heap"}
# Where the machine and the operating system may be asked for.
MACHINE_FOLDERS = {"arch", "os"}

_CONDITION = re.compile(r"^\s*#\s*(ifdef|ifndef|if|elif|elifdef|elifndef)\b(.*)")
_NAME = re.compile(r"\b[A-Za-z_]\w*")


def check(root: Path) -> list[Finding]:
    """All faults of hygiene under `root`."""
    findings = []
    for path in tracked_files(root):
        findings += _check_name(path) + _check_left_behind(root, path)
        if _is_source(root, path):
            findings += _check_licence(root, path)
    for path in library_files(root):
        findings += _check_length(root, path)
        if path.suffix in CXX_SUFFIXES and path.parts[1] not in MACHINE_FOLDERS:
            findings += _check_conditions(root, path)
    return findings


def shell_scripts(root: Path) -> list[Path]:
    """The shell scripts of the repository, known by suffix or first line."""
    return [path for path in tracked_files(root) if path.suffix == ".sh" or _interpreter(root, path) in {"sh", "bash"}]


def _interpreter(root: Path, path: Path) -> str:
    with (root / path).open("rb") as file:
        first = file.readline(200)
    if not first.startswith(b"#!"):
        return ""
    words = first[2:].decode(errors="replace").split()
    if words and words[0].endswith("/env"):
        words = [word for word in words[1:] if not word.startswith("-")]
    return Path(words[0]).name if words else ""


def _is_source(root: Path, path: Path) -> bool:
    if path.suffix in SOURCE_SUFFIXES or path.name in SOURCE_NAMES:
        return True
    return path.suffix == "" and _interpreter(root, path) != ""


def _check_name(path: Path) -> list[Finding]:
    parts = [*path.parts[:-1], path.stem]
    return [
        Finding(str(path), 1, f"'{part}' says nothing about what is inside; name the idea")
        for part in parts
        if part.lower() in EMPTY_NAMES
    ]


def _check_left_behind(root: Path, path: Path) -> list[Finding]:
    if path.suffix in LEFT_BEHIND:
        return [Finding(str(path), 1, f"a program left this behind: {path.suffix}")]
    with (root / path).open("rb") as file:
        is_text = b"\0" not in file.read(4096)
    if is_text or path.suffix in BINARY_SUFFIXES or not BINARY_FOLDERS.isdisjoint(path.parents):
        return []
    return [Finding(str(path), 1, f"not text, and none of {', '.join(sorted(BINARY_SUFFIXES))}")]


def _check_licence(root: Path, path: Path) -> list[Finding]:
    lines = (root / path).read_text(errors="replace").splitlines()
    place = 1 if lines and lines[0].startswith("#!") else 0
    if len(lines) > place and LICENCE in lines[place]:
        return []
    return [Finding(str(path), place + 1, f"this line must be the licence: {LICENCE}")]


def _check_length(root: Path, path: Path) -> list[Finding]:
    length = len((root / path).read_text().splitlines())
    if length <= MAX_LIBRARY_LINES:
        return []
    return [Finding(str(path), length, f"{length} lines; over {MAX_LIBRARY_LINES} asks for a split")]


def _check_conditions(root: Path, path: Path) -> list[Finding]:
    """Outside arch and os only Freeway's own configuration, and the language, may be asked for."""
    findings = []
    for line in split_lines((root / path).read_text()):
        match = _CONDITION.match(line.code)
        if not match:
            continue
        names = {name for name in _NAME.findall(match.group(2)) if name != "defined"}
        foreign = sorted(name for name in names if not name.startswith("FREEWAY_") and name != "__cplusplus")
        if foreign:
            message = f"#{match.group(1)} on {', '.join(foreign)}: only arch and os may ask for the machine"
            findings.append(Finding(str(path), line.number, message))
    return findings
