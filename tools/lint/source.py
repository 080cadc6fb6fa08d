# SPDX-License-Identifier: MIT
"""Source files as the lints see them: lines split into code and comment, with string contents blanked out.

The lints look for names in code and for labels in comments; a name in a string or in prose must not count. This is a
scanner, not a parser: it knows comments, strings and raw strings of C++, and `//`, `/* */` and `#` comments of
assembly.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOMS = ("src", "papers", "shared")  # folders with sources of libraries
CXX_SUFFIXES = {".h", ".cc", ".inc"}
ASSEMBLY_SUFFIXES = {".S"}


@dataclass(frozen=True, order=True)
class Finding:
    """One fault: where, and what is wrong there."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Line:
    """One line of a file. `number` counts from 1."""

    number: int
    code: str
    comment: str


_TOKEN = re.compile(
    r"""
    (?P<line_comment>//[^\n]*)
  | (?P<block_comment>/\*.*?(?:\*/|\Z))
  | (?P<raw_string>\bR"(?P<mark>[^\s()\\]*)\(.*?(?:\)(?P=mark)"|\Z))
  | (?P<string>"(?:\\.|[^"\\\n])*"?)
  | (?P<character>(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'?)
    """,
    re.VERBOSE | re.DOTALL,
)


def split_lines(text: str) -> list[Line]:
    """Splits C++ or assembly text into lines of code and comment. Include paths stay in the code."""
    code: list[str] = []
    comment: list[str] = []
    position = 0
    for token in _TOKEN.finditer(text):
        code.append(text[position : token.start()])
        comment.append(_only_newlines(text[position : token.start()]))
        body = token.group()
        if token.group("line_comment") or token.group("block_comment"):
            # A space, so that `a/**/b` does not become one name.
            code.append(" " + _only_newlines(body))
            comment.append(body)
        elif _is_include(text, token.start()):
            code.append(body)
        else:
            code.append('""' + _only_newlines(body))
            comment.append(_only_newlines(body))
        position = token.end()
    code.append(text[position:])
    comment.append(_only_newlines(text[position:]))
    code_lines = "".join(code).split("\n")
    comment_lines = "".join(comment).split("\n")
    pairs = zip(code_lines, comment_lines, strict=True)
    return [Line(number, c.rstrip(), m.strip()) for number, (c, m) in enumerate(pairs, start=1)]


def _only_newlines(text: str) -> str:
    return "\n" * text.count("\n")


def _is_include(text: str, start: int) -> bool:
    line_start = text.rfind("\n", 0, start) + 1
    return re.fullmatch(r"\s*#\s*include\s*", text[line_start:start]) is not None


def tracked_files(root: Path) -> list[Path]:
    """All files of the repository, relative to `root`: tracked ones and new ones that git does not ignore."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = listing.stdout.decode().split("\0")
        found = [Path(name) for name in names if name and (root / name).is_file()]
    else:  # an unpacked archive
        found = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
        found = [path for path in found if path.parts[0] not in {".git", "build"}]
    return sorted(set(found))


def library_files(root: Path) -> list[Path]:
    """The C++ and assembly files of the libraries, those of ROOMS but for their tests too, relative to `root`."""
    wanted = CXX_SUFFIXES | ASSEMBLY_SUFFIXES
    found = [path.relative_to(root) for room in ROOMS for path in (root / room).rglob("*") if path.suffix in wanted]
    return sorted(path for path in found if "tests" not in path.parts)
