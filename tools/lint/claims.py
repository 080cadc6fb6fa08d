# SPDX-License-Identifier: MIT
"""Claims: what pages say of the tree, where a test keeps the figure or the list somewhere else.

The instructions of the fast path are those of tests/whole/golden; a function that is exported has a row in the table of
stacks; a machine of docs/matrix.md says which kernel it ran, and says it once; an option that a page names is the
library's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tools.lint.source import Finding

GOLDEN = Path("tests/whole/golden/fast_path.json")
EXPORTED = (Path("tests/whole/golden/exported_symbols.txt"), Path("shared/tests/exported_symbols.txt"))
GUARANTEES = Path("GUARANTEES.md")
BENCHMARKS = Path("docs/benchmarks.md")
FAST_PATH = Path("src/malloc/x86_64/fast_path.S")
MATRIX = Path("docs/matrix.md")
OPTIONS = Path("src/os/option_table.h")
PAGES = ("README.md", "SECURITY.md", "docs/*.md", "packaging/docker/README.md")
# Of the build, the command, the papers' engines and debug.h.
OTHER_NAMES = {"NO_INSTALL", "LIB", "FORM", "DEBUG_VERSION"}

_PAIR = re.compile(r"^\| malloc\(32\) \+ free \| *(\d+) \|.*\| disassembly of the fast path \|$")
_COUNTS = re.compile(r"^\| malloc\(32\) \+ free \|.*\| callgrind \|$")
_IN_SOURCE = re.compile(r"Counted by tests/whole/golden: (\d+) instructions malloc, (\d+) free")
_NO_RSEQ = " freeway-no-rseq "
_CACHED = re.compile(r"^\| `(malloc|free)` up to 32 KiB, cached \|[^|]*\| *(\d+) ")
_STACK_ROW = re.compile(r"^\| ([^|]+) \| *\d")
_MANGLED = "_Z"


def check(root: Path) -> list[Finding]:
    """All claims under `root` that are not so."""
    return [*_instructions(root), *_stacks(root), *_matrix(root), *_options(root)]


def _lines(root: Path, path: Path) -> list[tuple[int, str]]:
    file = root / path
    return list(enumerate(file.read_text().splitlines(), 1)) if file.exists() else []


def _instructions(root: Path) -> Iterator[Finding]:
    if not (root / GOLDEN).exists():
        return
    golden = json.loads((root / GOLDEN).read_text())["x86_64"]
    for number, line in _lines(root, GUARANTEES):
        if (match := _CACHED.match(line)) and int(match[2]) != golden[match[1]]:
            yield Finding(str(GUARANTEES), number, f"{match[1]} has {golden[match[1]]} instructions in {GOLDEN}")
    pair = golden["malloc"] + golden["free"]
    for number, line in _lines(root, BENCHMARKS):
        if (match := _PAIR.search(line)) and int(match[1]) != pair:
            yield Finding(
                str(BENCHMARKS), number, f"a pair has {pair} instructions in {GOLDEN}: bench/results/README.md"
            )
    for number, line in _lines(root, FAST_PATH):
        if (match := _IN_SOURCE.search(line)) and [int(n) for n in match.groups()] != [
            golden["malloc"],
            golden["free"],
        ]:
            yield Finding(str(FAST_PATH), number, f"{golden['malloc']} and {golden['free']} in {GOLDEN}")
    yield from _without_rseq(root, golden.get("owned_malloc", 0) + golden.get("owned_free", 0))


def _without_rseq(root: Path, most: int) -> Iterator[Finding]:
    """Counted under valgrind, which offers no rseq; golden counts are the most that there may be."""
    column = 0
    for number, line in _lines(root, BENCHMARKS):
        cells = line.split("|")
        if line.startswith("| Instructions |"):
            column = cells.index(_NO_RSEQ) if _NO_RSEQ in cells else 0
        elif (
            column and _COUNTS.match(line) and re.fullmatch(r" [\d.]+ ", cells[column]) and float(cells[column]) > most
        ):
            message = f"without rseq a pair has at most {most} instructions in {GOLDEN}: bench/results/README.md"
            yield Finding(str(BENCHMARKS), number, message)


def _stacks(root: Path) -> Iterator[Finding]:
    """Every exported function under its own name, or the standard one that it is a twin of."""
    named: set[str] = set()
    inside, place = False, 0
    for number, line in _lines(root, GUARANTEES):
        if line.startswith("#"):
            inside = line == "## Stack"
            place = number if inside else place
        elif inside:
            named |= set(re.findall(r"`(\w+\*?)`", line))
    if not place:
        return
    patterns = {name.rstrip("*") for name in named if name.endswith("*")}
    for _, line in (each for path in EXPORTED for each in _lines(root, path)):
        standard = line.removeprefix("freeway_")
        if not line or line.startswith(("#", _MANGLED)) or named & {line, standard}:
            continue
        if not any(line.startswith(pattern) for pattern in patterns):
            yield Finding(str(GUARANTEES), place, f"no word on the stack of {line}")


def _matrix(root: Path) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for number, line in _lines(root, MATRIX):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not re.match(r"\| (amd64|arm64) ", line):
            continue
        if any(cell.strip("*") == "?" or cell.endswith(" ?") for cell in cells):
            yield Finding(str(MATRIX), number, "a machine that did not say what it ran is no row")
        name = " | ".join(cells[:2])
        if name in seen:
            yield Finding(str(MATRIX), number, f"{name}: as in line {seen[name]}")
        seen.setdefault(name, number)


def _options(root: Path) -> Iterator[Finding]:
    """A page may outlive an option, or misspell it."""
    if not (root / OPTIONS).exists():
        return
    known = OTHER_NAMES | set(re.findall(r'\{"([A-Z_]+)",', (root / OPTIONS).read_text()))
    for page in sorted({path.relative_to(root) for pattern in PAGES for path in root.glob(pattern)}):
        for number, line in _lines(root, page):
            for name in re.findall(r"\bFREEWAY_([A-Z_]+)(?==|`)", line):
                if name not in known:
                    yield Finding(str(page), number, f"FREEWAY_{name} is no option in {OPTIONS}")
