# SPDX-License-Identifier: MIT
"""Usage: freeway(1), docs/command.md and docs/options.md say what the command says of itself.

`python3 -m tools.lint.usage COMMAND` writes it there; COMMAND is a built `freeway`. tests/command/command_test.py
compares, as that needs the command, too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Copy(NamedTuple):
    """What the command prints to `arguments` stands between these two lines; an empty one is the end of the file."""

    path: str
    arguments: tuple[str, ...]
    first: str
    last: str


COPIES = (
    Copy("docs/command.md", ("help", "--markdown"), "<!-- freeway help --markdown -->\n", "<!-- end -->\n"),
    Copy("docs/options.md", ("options", "--markdown"), "<!-- freeway options --markdown -->\n", "<!-- end -->\n"),
    Copy("docs/man/freeway.1", ("help", "--mdoc"), '.\\" freeway help --mdoc\n', ""),
)


def written(copy: Copy, text: str, said: str) -> str:
    """`text`, a file's, with what the command has said."""
    before, first, rest = text.partition(copy.first)
    _, last, after = rest.partition(copy.last) if copy.last else ("", "", "")
    if not first or last != copy.last:
        raise ValueError(f"{copy.path}: there is no {copy.first if not first else copy.last}")
    blank = "\n" if last else ""  # Markdown wants one beside what is no paragraph
    return before + first + blank + said + blank + last + after


def said_by(command: str | Path, copy: Copy) -> str:
    """What the command prints."""
    return subprocess.run([command, *copy.arguments], capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Writes all copies."""
    for copy in COPIES:
        path = Path(copy.path)
        path.write_text(written(copy, path.read_text(), said_by(sys.argv[1], copy)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
