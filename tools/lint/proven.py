# SPDX-License-Identifier: MIT
"""Proven: `proof/ties.txt` says which lemma stands for which function of a header, and for which step of it.

    src/superblock/superblocks.h was_freed 0123abcd R_free,R_faa       a function, its fingerprint, its lemmas
    tests/superblock/state.h R 0123abcd R=4567cdef,facts=89abef01      a function that says what definitions say
    src/superblock/superblocks.h "superblock.freed" R_faa              a step of a header
    src/superblock/superblocks.h "superblock.stealing" - a reason      a step without a lemma

Comments and white space are no part of a fingerprint. The lint fails where a function is another than the proof was
written for, where a lemma is missing, where a definition with a fingerprint is another, and where a header that is
named has a step that the file does not name.

    python3 -m tools.lint.proven again       the proof was read beside the headers and fits: writes the fingerprints
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

from tools.lint.source import Finding, split_lines

TIES = Path("proof/ties.txt")
PROOFS = "proof/*.v"
_AGAIN = "see to the proof, then `python3 -m tools.lint.proven again`"
_STEP = re.compile(r'\bstep\("([a-z_.]+)"\)')
_LEMMA = re.compile(r"\b(?:Lemma|Theorem|Definition|Fixpoint) (\w+)")
_DEFINITION = re.compile(r"\bDefinition (\w+)\b.*?\.$", re.DOTALL | re.MULTILINE)
_SAYS = re.compile(r"(\w+)=(?:[0-9a-f]{8}|-)")
_FUNCTION_TIE = re.compile(r"(\S+) (\w+) ([0-9a-f]{8}|-) (\S+)")
_STEP_TIE = re.compile(r'(\S+) "([a-z_.]+)" (-(?= \S)|[\w,]+)')


def fingerprint(text: str, name: str) -> str | None:
    """Eight digits of the bodies of the functions called `name` in a header; None if it has none."""
    code = "\n".join(line.code for line in split_lines(text))
    bodies = [
        code[match.start() : end] for match in re.finditer(rf"\b{name}\(", code) if (end := _end(code, match.end()))
    ]
    return hashlib.sha256("".join("".join(bodies).split()).encode()).hexdigest()[:8] if bodies else None


def _end(code: str, inside: int) -> int | None:
    """Where the function ends whose parameters begin at `inside`; None where it is but called."""
    behind = _behind(code, inside, "()")
    brace = re.compile(r"\s*(?:const\s*)?\{").match(code, behind)
    return _behind(code, brace.end(), "{}") if brace else None


def _behind(code: str, place: int, pair: str) -> int:
    depth = 1
    while depth > 0 and place < len(code):
        depth += (code[place] == pair[0]) - (code[place] == pair[1])
        place += 1
    return place


def _definitions(root: Path) -> dict[str, str]:
    """Eight digits of the text of each definition of the proof."""
    found = {}
    for path in sorted(root.glob(PROOFS)):
        text = re.sub(r"\(\*.*?\*\)", "", path.read_text(), flags=re.DOTALL)
        for match in _DEFINITION.finditer(text):
            found[match[1]] = hashlib.sha256("".join(match[0].split()).encode()).hexdigest()[:8]
    return found


def _rows(root: Path) -> list[tuple[int, str]]:
    if not (root / TIES).exists():
        return []
    lines = enumerate((root / TIES).read_text().splitlines(), 1)
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def check(root: Path) -> list[Finding]:
    """Functions that are others than proved, lemmas and steps that are missing."""
    findings: list[Finding] = []
    known = {name for path in root.glob(PROOFS) for name in _LEMMA.findall(path.read_text())}
    says = _definitions(root)
    steps: dict[str, set[str]] = {}
    for number, line in _rows(root):
        step, function = _STEP_TIE.match(line), _FUNCTION_TIE.fullmatch(line)
        tie = step or function
        if tie is None or not (root / tie[1]).exists():
            findings.append(Finding(str(TIES), number, "neither a function nor a step of a header"))
            continue
        named = steps.setdefault(tie[1], set())
        text = (root / tie[1]).read_text()
        if step:
            named.add(step[2])
            if step[2] not in _STEP.findall(text):
                findings.append(Finding(str(TIES), number, f'{step[1]} has no step "{step[2]}"'))
        elif (now := fingerprint(text, tie[2])) != tie[3]:
            findings.append(Finding(str(TIES), number, _changed(tie[1], tie[2], now)))
        lemmas = [name.partition("=") for name in tie[tie.lastindex or 0].split(",") if name != "-"]
        findings += [
            Finding(str(TIES), number, f"{name} of {PROOFS} is not what {tie[2]} of {tie[1]} says: {_AGAIN}")
            for name, is_print, wanted in lemmas
            if is_print and name in known and says.get(name) != wanted
        ]
        missing = {name for name, _, _ in lemmas} - known
        findings += [Finding(str(TIES), number, f"{PROOFS} have no {name}") for name in missing]
    for header, named in steps.items():
        found = set(_STEP.findall((root / header).read_text()))
        findings += [Finding(header, 1, f'{TIES} does not name the step "{name}"') for name in found - named]
    return findings


def _changed(header: str, name: str, now: str | None) -> str:
    if now is None:
        return f"{header} has no function {name}"
    return f"{name} of {header} is not what was proved: {_AGAIN}"


def again(root: Path) -> None:
    """Writes the fingerprints as they are now."""
    lines = (root / TIES).read_text().splitlines()
    says = _definitions(root)
    for place, line in enumerate(lines):
        if not line.startswith("#") and (tie := _FUNCTION_TIE.fullmatch(line)):
            lemmas = _SAYS.sub(lambda match: f"{match[1]}={says.get(match[1], '-')}", tie[4])
            lines[place] = f"{tie[1]} {tie[2]} {fingerprint((root / tie[1]).read_text(), tie[2]) or '-'} {lemmas}"
    (root / TIES).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["again"]:
        sys.exit(__doc__)
    again(Path.cwd())
