# SPDX-License-Identifier: MIT
"""Orders: every atomic operation in src/ that is not relaxed has a label, and a partner it synchronises with.

    node->next.store_release(n);                // [R1] pairs with [A1]
    Node* n = node->next.load_acquire();        // [A1] pairs with [R1]
    head.exchange_acq_rel(n);                   // [A2] pairs with [R3]; [R2] pairs with [A4]
    word.load_acquire();                        // [A5] pairs with chunk_word.h:[R1]

The comment stands at the end of the line of the call, or of a later line of its statement, or alone on the line
above. Labels belong to their file. A label names a role, so several operations may carry the same one. [R...] stands
on operations that release, [A...] on those that acquire, other letters on either. It is enough that one of two
partners names the other. A pair needs a side that releases and a side that acquires. A label that a header comment
speaks of must exist.

Labels in assembly, or on a line without an atomic call (an instruction, a kernel barrier), fit any partner. src/arch
defines the operations, so its headers are not checked for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tools.lint.source import ASSEMBLY_SUFFIXES, Finding, Line, library_files, split_lines

DEFINING_FOLDER = "arch"

_OPERATION = re.compile(
    r"(?:\.|->|::|\b)(?:template\s+)?"
    r"((?:load|store|exchange|fetch_add|fetch_sub|fetch_or|fetch_and|fetch_xor|cas|fence)"
    r"_(?:relaxed_acquire|acquire_acquire|acq_rel_acquire|acquire|release|acq_rel|relaxed|seq_cst))\s*\("
)
_DECLARED = re.compile(r"\b(?:void|bool|auto|T|u\d+)\s+$")
_LABEL = re.compile(r"(?:([\w./-]+):)?\[([A-Z]{1,2}\d+[a-z]?)\]")
_PAIRS = re.compile(r"\bpairs with\b")
_STATEMENT_END = re.compile(r"[;{}]\s*$")


@dataclass
class Label:
    """A role of a file: the operations that carry it.

    Without an operation nothing is known of it (assembly, a barrier of the kernel): it releases and acquires.
    """

    path: Path
    line: int
    name: str
    operations: list[str] = field(default_factory=list)
    paired: bool = False

    @property
    def releases(self) -> bool:
        return all(_releases(operation) for operation in self.operations)

    @property
    def acquires(self) -> bool:
        return all("acq" in operation for operation in self.operations)

    def fits(self, partner: Label) -> bool:
        return (self.releases and partner.acquires) or (self.acquires and partner.releases)


@dataclass(frozen=True)
class Claim:
    """One comment's claim that each of `partners`, as (file or empty, name), pairs with one of `labels`."""

    path: Path
    line: int
    labels: list[Label]
    partners: list[tuple[str, str]]


@dataclass
class File:
    """What one file says of orders."""

    path: Path
    labels: dict[str, Label] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)


def _releases(operation: str) -> bool:
    return "release" in operation or "acq_rel" in operation


def check(root: Path) -> list[Finding]:
    """All faults of memory orders under `root`."""
    findings: list[Finding] = []
    files: dict[Path, File] = {}
    for path in library_files(root):
        files[path] = File(path)
        findings += _scan(files[path], split_lines((root / path).read_text()))
    for file in files.values():
        for claim in file.claims:
            findings += _resolve(claim, files)
    for file in files.values():
        for label in file.labels.values():
            if not label.paired:
                message = f"[{label.name}] pairs with nothing, and nothing with it"
                findings.append(Finding(str(file.path), label.line, message))
    return findings


def _scan(file: File, lines: list[Line]) -> list[Finding]:
    """Collects the labels of one file and reports the operations that lack one."""
    findings = []
    silent = file.path.suffix in ASSEMBLY_SUFFIXES or file.path.parts[1] == DEFINING_FOLDER
    claimed: set[int] = set()  # indexes of lines whose comment a call has taken
    for index, line in enumerate(lines):
        operations = [] if silent else _operations(line.code)
        ordered = [operation for operation in operations if not operation.endswith("_relaxed")]
        if not ordered:
            continue
        place = _comment_place(lines, index)
        if place is None or (place in claimed and place != index):
            findings.append(Finding(str(file.path), line.number, f"{ordered[0]} has no label such as [R1]"))
            continue
        claimed.add(place)
        findings += _define(file, lines[place], ordered)
    for index, line in enumerate(lines):
        if index in claimed or not line.code.strip() or not _defined_in(line.comment):
            continue
        if any(operation.endswith("_relaxed") for operation in _operations(line.code)):
            findings.append(Finding(str(file.path), line.number, "a label on a relaxed operation orders nothing"))
            continue
        findings += _define(file, line, [])
    for line in lines:
        if not line.code.strip():
            spoken_of = [name for other, name in _LABEL.findall(line.comment) if not other]
            findings += [
                Finding(str(file.path), line.number, f"the comment speaks of [{name}], which no operation here carries")
                for name in spoken_of
                if name not in file.labels
            ]
    return findings


def _operations(code: str) -> list[str]:
    """The atomic operations called in a line; what a line declares or defines is not called there."""
    found = []
    for match in _OPERATION.finditer(code):
        if not _DECLARED.search(code[: match.start()]):
            found.append(match.group(1))
        else:
            break  # the body of a one-line definition passes the order on
    return found


def _comment_place(lines: list[Line], index: int) -> int | None:
    """Index of the line whose comment labels the statement that calls an operation on line `index`."""
    for place in range(index, min(index + 6, len(lines))):
        if lines[place].code.strip() and _defined_in(lines[place].comment):
            return place
        if _STATEMENT_END.search(lines[place].code):
            break
    above = index - 1
    if above >= 0 and not lines[above].code.strip() and _stands_alone(lines[above].comment):
        return above
    return None


def _stands_alone(comment: str) -> bool:
    text = comment.lstrip("/* ")
    return text.startswith("[") and _PAIRS.search(text) is not None


def _defined_in(comment: str) -> list[tuple[list[str], list[tuple[str, str]]]]:
    """The labels that a comment defines, and the partners named for them; one entry for each part between `;`."""
    defined = []
    for segment in comment.split(";"):
        parts = _PAIRS.split(segment, maxsplit=1)
        names = [name for file, name in _LABEL.findall(parts[0]) if not file]
        partners = _LABEL.findall(parts[1]) if len(parts) > 1 else []
        if names:
            defined.append((names, partners))
    return defined


def _define(file: File, line: Line, operations: list[str]) -> list[Finding]:
    findings = []
    for names, partners in _defined_in(line.comment):
        labels = []
        for name in names:
            label = file.labels.setdefault(name, Label(file.path, line.number, name))
            before = label.releases, label.acquires
            label.operations += operations
            labels.append(label)
            wrong = _wrong_direction(label)
            if wrong and before != (label.releases, label.acquires):
                findings.append(Finding(str(file.path), line.number, f"[{name}] {wrong}"))
        file.claims.append(Claim(file.path, line.number, labels, partners))
    return findings


def _wrong_direction(label: Label) -> str:
    if label.name.startswith("R") and not label.releases:
        return "stands on an operation that does not release"
    if label.name.startswith("A") and not label.acquires:
        return "stands on an operation that does not acquire"
    if not label.releases and not label.acquires:
        return f"releases in one place and acquires in another (first on line {label.line})"
    return ""


def _resolve(claim: Claim, files: dict[Path, File]) -> list[Finding]:
    """Finds the partners that a comment names, and marks both sides as paired."""
    findings = []
    for file, name in claim.partners:
        shown = f"pairs with {file}:[{name}]" if file else f"pairs with [{name}]"
        paths = [claim.path] if not file else [path for path in files if _is_named(path, file)]
        if len(paths) != 1:
            reason = "no such file in src/" if not paths else "several files have that name; give a folder"
            findings.append(Finding(str(claim.path), claim.line, f"{shown}: {reason}"))
            continue
        partner = files[paths[0]].labels.get(name)
        if partner is None:
            findings.append(Finding(str(claim.path), claim.line, f"{shown}: no such label"))
            continue
        fitting = [label for label in claim.labels if label.fits(partner)]
        if not fitting:
            findings.append(Finding(str(claim.path), claim.line, f"{shown}: one must release and the other acquire"))
        for label in [*(fitting or claim.labels), partner]:
            label.paired = True
    return findings


def _is_named(path: Path, file: str) -> bool:
    wanted = Path(file).parts
    return path.parts[-len(wanted) :] == wanted
