# SPDX-License-Identifier: MIT
"""Upwards: what a room of src/ names for the linker is defined in that room or in one below it.

`layers.py` sees includes. A function or variable of `extern "C"`, or one that assembly names, needs none: this looks
for `freeway_` names that are declared (C++) or used (assembly) below the room that defines them. A macro of the
assembler that makes a name of its argument defines that name where it is used.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tools.lint.layers import layers_of
from tools.lint.source import Finding, library_files, split_lines

_NAME = re.compile(r"\bfreeway_\w+\b(?!\\)")
_DECLARED = re.compile(r"\b(freeway_\w+)\b\s*(?=[(;]|__attribute__)")
_EXTERN = re.compile(r'extern ""(?=[^;]*?(?P<end>[{;]))', re.DOTALL)
_DEFINED = re.compile(r"\b(freeway_\w+)\s*(?:\([^;{}()]*\)\s*(?:noexcept\s*)?\{|=[^;=]+;|\{)")
_MACRO = re.compile(r"^\s*\.macro\s+(\w+)\s+(\w+)")
_GLOBAL = re.compile(r"^\s*\.globl\s+(\w+?)_?\\(\w+)")


def check(root: Path) -> list[Finding]:
    """All names that point upwards."""
    layers = layers_of(root)
    files = [path for path in library_files(root) if path.parts[0] == "src" and path.parts[1] in layers]
    code = {path: [line.code for line in split_lines((root / path).read_text())] for path in files}
    prefixes = _macros_that_define([lines for path, lines in code.items() if _is_assembly(path)])
    defined = defaultdict(set)  # name -> the numbers of its layers
    for path, lines in code.items():
        for name in _definitions(path, lines, prefixes):
            defined[name].add(layers.index(path.parts[1]))
    findings = []
    for path, lines in code.items():
        own = layers.index(path.parts[1])
        for name, number in _mentions(path, lines):
            if defined[name] and min(defined[name]) > own:
                where = layers[min(defined[name])]
                findings.append(Finding(str(path), number, f"{name} is defined in {where}, which is above"))
    return findings


def _is_assembly(path: Path) -> bool:
    return path.suffix in {".S", ".inc"}


def _macros_that_define(files: list[list[str]]) -> dict[str, set[str]]:
    """Macro -> beginnings of the names that it makes of its first argument, by itself or by another macro."""
    found: dict[str, set[str]] = defaultdict(set)
    calls = []  # (macro, macro that it hands its first argument to)
    for lines in files:
        macro, argument = "", ""
        for line in lines:
            if match := _MACRO.match(line):
                macro, argument = match.groups()
            elif line.strip() == ".endm":
                macro = ""
            elif macro and (match := _GLOBAL.match(line)) and match.group(2) == argument:
                found[macro].add(match.group(1) + "_")
            elif macro and (match := re.match(rf"^\s*(\w+)\s+\\{argument}\b", line)):
                calls.append((macro, match.group(1)))
    for _ in calls:
        for macro, called in calls:
            found[macro] |= found[called]
    return found


def _definitions(path: Path, lines: list[str], prefixes: dict[str, set[str]]) -> set[str]:
    if not _is_assembly(path):
        return set(_DEFINED.findall("\n".join(lines)))
    names = {match.group(1) for line in lines if (match := re.match(r"^(freeway_\w+):", line))}
    for line in lines:
        words = line.replace(",", " ").split()
        if len(words) > 1:
            names |= {prefix + words[1] for prefix in prefixes.get(words[0], ())}
    return names


def _mentions(path: Path, lines: list[str]) -> list[tuple[str, int]]:
    """(name, line) of what is declared or, in assembly, used. `.reloc` only says what is linked beside a file."""
    if _is_assembly(path):
        return [
            (name, number)
            for number, line in enumerate(lines, start=1)
            if not line.strip().startswith(".reloc")
            for name in _NAME.findall(line)
        ]
    text = "\n".join(lines)
    found = []
    for match in _EXTERN.finditer(text):
        begin = match.end()
        end = text.find("\n}", begin) if match.group("end") == "{" else text.find(";", begin) + 1
        for name in _DECLARED.finditer(text, begin, end if end > 0 else len(text)):
            found.append((name.group(1), text.count("\n", 0, name.start()) + 1))
    return found
