# SPDX-License-Identifier: MIT
"""What clang-format would change in C and C++, by `.clang-format`, and lines that are too long where it changes
nothing: comments, strings, assembly; raw strings are in another language. `python3 -m tools.lint.formatting` (`make
format`) formats.

clang-format is the one of scripts/requirements.txt: others lay the same file out in other ways.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tools.lint.source import Finding, tracked_files

SUFFIXES = {".h", ".c", ".cc"}
COLUMNS = 120

_RAW_STRING = re.compile(r'\bR"(\w*)\(.*?\)\1"', re.DOTALL)
_DIFFERENCE = re.compile(r"^(.+?):(\d+):\d+: error: code should be clang-formatted", re.MULTILINE)


def check(root: Path) -> list[Finding]:
    """The first place of each file that is formatted otherwise, and every line over COLUMNS."""
    files = _files(root)
    if not files:
        return []
    program = _program(root)
    if program is None:
        return [Finding(".clang-format", 1, "there is no clang-format in build/venv: `make lint` installs it")]
    done = _run(program, root, files, "--dry-run", "--Werror")
    first: dict[str, int] = {}
    for path, line in _DIFFERENCE.findall(done.stderr):
        first.setdefault(path, int(line))
    if done.returncode != 0 and not first:
        raise RuntimeError(done.stderr)
    findings = [Finding(path, line, "not as clang-format has it: `make format`") for path, line in first.items()]
    for path in [*files, *(path for path in tracked_files(root) if path.suffix == ".S")]:
        text = _RAW_STRING.sub(lambda raw: "\n" * raw.group().count("\n"), (root / path).read_text())
        for number, line in enumerate(text.split("\n"), start=1):
            if len(line) > COLUMNS:
                findings.append(Finding(str(path), number, f"{len(line)} columns; at most {COLUMNS}"))
    return findings


def _files(root: Path) -> list[Path]:
    return [path for path in tracked_files(root) if path.suffix in SUFFIXES]


def _program(root: Path) -> Path | None:
    """Beside this Python, which is build/venv's in `make lint`."""
    for folder in (Path(sys.executable).parent, root / "build/venv/bin"):
        if (folder / "clang-format").is_file():
            return folder / "clang-format"
    return None


def _run(program: Path, root: Path, files: list[Path], *options: str) -> subprocess.CompletedProcess[str]:
    command = [program, "--style=file", *options, *files]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def main() -> int:
    """Formats all files in place."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    program = _program(root)
    if program is None:
        print("there is no clang-format in build/venv: `make format` installs it", file=sys.stderr)
        return 1
    done = _run(program, root, _files(root), "-i")
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
