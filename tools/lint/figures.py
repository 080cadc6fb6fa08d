# SPDX-License-Identifier: MIT
"""Figures: freeway_stats_t in freeway.h and in the bindings says what src/look/figures.def says.

`python3 -m tools.lint.figures [root]` writes it there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tools.lint.source import Finding

SOURCE = "src/look/figures.def"
COMMENT_COLUMN = 30  # in the header

_FIGURE = re.compile(r'^FREEWAY_FIGURE\((\w+), (\w+), "([^"]+)\."(?:, "([^"]+)")?\)$')
_WORD_BEFORE = {"kBytes": "", "kCount": "count: ", "kTotal": "count so far: ", "kTotalBytes": "bytes so far: "}


class Figure(NamedTuple):
    """A figure, and what it is: without a capital, without a full stop."""

    name: str
    only_grows: bool
    about: str


def header(figure: Figure) -> str:
    """A member of the structure of C."""
    member = f"  {'uint64_t' if figure.only_grows else 'size_t'} {figure.name};"
    return f"{member:{COMMENT_COLUMN - 1}} /* {figure.about} */\n"


def python(figure: Figure) -> str:
    """A name in the tuple of Python's binding."""
    return f'    "{figure.name}",\n'


def rust(figure: Figure) -> str:
    """A field of the structure of Rust's binding."""
    about = figure.about[0].upper() + figure.about[1:]
    return f"        /// {about}.\n        {figure.name}: {'u64' if figure.only_grows else 'usize'},\n"


class Copy(NamedTuple):
    """Where the figures are written down once more: between these two lines."""

    path: str
    first: str
    last: str
    write: Callable[[Figure], str]


COPIES = (
    Copy("include/freeway/freeway.h", "typedef struct freeway_stats_t {\n", "} freeway_stats_t;\n", header),
    Copy("packaging/python/freeway/_library.py", "_FIGURES = (\n", ")\n", python),
    Copy("packaging/rust/freeway-sys/src/lib.rs", "    freeway_stats_t {\n", "    }\n", rust),
)


def read(text: str) -> tuple[list[Figure], list[int]]:
    """The figures that `text` has, and the lines of it that are none, but should be."""
    figures, wrong = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _FIGURE.match(line)
        if match and match[2] in _WORD_BEFORE:
            name, kind, about, more = match.groups()
            about = _WORD_BEFORE[kind] + about[0].lower() + about[1:] + (more or "")
            figures.append(Figure(name, kind.startswith("kTotal"), about))
        elif line.startswith("FREEWAY_FIGURE"):
            wrong.append(number)
    return figures, wrong


def written(copy: Copy, text: str, figures: list[Figure]) -> str:
    """`text`, a file's, with these figures."""
    before, first, rest = text.partition("\n" + copy.first)
    _, last, after = rest.partition("\n" + copy.last)
    if not first or not last:
        raise ValueError(f"{copy.path} has no lines {copy.first!r} and {copy.last!r}")
    return before + first + "".join(map(copy.write, figures)).rstrip("\n") + last + after


def check(root: Path) -> list[Finding]:
    """Copies that are not what SOURCE says."""
    source = root / SOURCE
    if not source.is_file():
        return []
    figures, wrong = read(source.read_text())
    findings = [Finding(SOURCE, line, "no figure: the file's comment says how one is written") for line in wrong]
    for copy in COPIES:
        text = (root / copy.path).read_text()
        line = text.partition(copy.first)[0].count("\n") + 1
        if written(copy, text, figures) != text:
            findings.append(Finding(copy.path, line, f"not what {SOURCE} says: `python3 -m tools.lint.figures`"))
    return findings


def main() -> int:
    """Writes all copies; 1 if SOURCE has lines that are no figures."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    figures, wrong = read((root / SOURCE).read_text())
    for line in wrong:
        print(Finding(SOURCE, line, "no figure"))
    for copy in () if wrong else COPIES:
        path = root / copy.path
        path.write_text(written(copy, path.read_text(), figures))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
