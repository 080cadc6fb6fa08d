# SPDX-License-Identifier: MIT
"""`python3 -m tools.house`: measures the house and prints its figures beside their limits; status 1 if one is above.

What needs a build (the way of malloc, compile steps, the text of the library) is measured in build/release, and left
out where there is none.
"""

from __future__ import annotations

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
WAY_TIMEOUT_S = 120  # it takes 2 s; gdb waits for ever for a function that does not exist any more
SOURCES = {".h", ".cc", ".S", ".inc"}
BUILD = Path("build/release")


@dataclass(frozen=True)
class Figure:
    """One line of the table: `limit` may not be passed, `goal` is to be reached."""

    name: str
    value: int
    limit: int
    goal: int
    detail: str = ""


def lines_below(folder: Path) -> int:
    """Lines of the sources below a folder, its tests left out."""
    files = [path for path in folder.rglob("*") if path.suffix in SOURCES and "tests" not in path.parts]
    return sum(len(path.read_text().splitlines()) for path in files)


def classes() -> list[tuple[int, str]]:
    """(functions, name) of each class of src/, the largest first. Overloads count one by one."""
    command = ["ctags", "--languages=C++", "--map-C++=+.h", "--kinds-C++=fp", "--fields=+SsZ", "--output-format=json"]
    done = subprocess.run([*command, "-R", "-f", "-", "src"], capture_output=True, text=True, check=True)
    functions = collections.defaultdict(set)
    for line in done.stdout.splitlines():
        tag = json.loads(line)
        if tag.get("scopeKind") in {"class", "struct"}:
            functions[tag["scope"]].add((tag["name"], tag.get("signature")))
    return sorted(((len(found), name) for name, found in functions.items()), reverse=True)


def options() -> int:
    """Options of the environment that the library knows."""
    table = Path("src/os/option_table.h").read_text()
    return len(re.findall(r'^ *\{"[A-Z_]+",', table, re.MULTILINE))


def way() -> dict[str, list[str]]:
    """The files of src/ that a malloc(32) executes: see way.py."""
    library = (BUILD / "libfreeway.so").resolve()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "way"
        subprocess.run(["cc", "-g", "-O1", HERE / "way.c", "-o", program], check=True)
        settings = {"LD_PRELOAD": str(library), "FREEWAY_RSEQ": "0"}
        command = ["gdb", "-nx", "-batch", "-iex", "set auto-load off"]
        for name, value in settings.items():
            command += ["-ex", f"set environment {name} {value}"]
        try:
            done = subprocess.run(
                [*command, "-x", HERE / "way.py", program],
                capture_output=True, text=True, check=False, timeout=WAY_TIMEOUT_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            said = (late.stdout or b"").decode(errors="replace")[-500:]
            raise RuntimeError(
                f"gdb did not follow malloc within {WAY_TIMEOUT_S} s: is each function that tools/house/way.py stops "
                f"at still there?\n{said}"
            ) from None
    for line in done.stdout.splitlines():
        if line.startswith("WAY "):
            return json.loads(line.removeprefix("WAY "))
    raise RuntimeError(f"gdb could not follow malloc:\n{done.stdout[-500:]}\n{done.stderr[-500:]}")


def compile_steps(*targets: str) -> int:
    """Compilations that a build of these targets takes from nothing."""
    done = subprocess.run(
        ["ninja", "-C", BUILD, "-t", "commands", *targets], capture_output=True, text=True, check=True
    )
    return sum(" -c " in line for line in done.stdout.splitlines())


def text_bytes() -> int:
    """Bytes of code and constants of libfreeway.so."""
    done = subprocess.run(["size", BUILD / "libfreeway.so"], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[1].split()[0])


def figures() -> list[Figure]:
    """All that can be measured here."""
    test_files = [path for path in Path("tests").rglob("*") if path.is_file()]
    found = [
        Figure("lines of src", lines_below(Path("src")), 21850, 16500),
        Figure("lines of papers", lines_below(Path("papers")), 9500, 9500),
        Figure("files below tests", len(test_files), 720, 500),
        Figure("options of the environment", options(), 12, 12),
    ]
    if shutil.which("ctags"):
        count, name = classes()[0]
        found.append(Figure("functions of the largest class", count, 40, 40, name))
    if (BUILD / "libfreeway.so").exists():
        found.append(Figure("bytes of text of libfreeway.so", text_bytes(), 227200, 200000))
        found.append(Figure("compile steps of `make`", compile_steps("freeway_products"), 152, 150))
        found.append(Figure("compile steps of everything", compile_steps("all"), 768, 700))
        if shutil.which("gdb") and os.uname().machine == "x86_64":
            files = way()
            for call, limit, goal in (("hit", 6, 5), ("empty", 25, 18), ("mmap", 39, 30)):
                found.append(Figure(f"files that malloc(32) executes: {call}", len(files[call]), limit, goal))
    return found


def main() -> int:
    """Prints the table."""
    table = Table("figure", "now", "limit", "goal", "", box=None, pad_edge=False)
    measured = figures()
    for figure in measured:
        above = "above its limit" if figure.value > figure.limit else figure.detail
        table.add_row(figure.name, str(figure.value), str(figure.limit), str(figure.goal), above)
    Console(width=100).print(table)
    return 1 if any(figure.value > figure.limit for figure in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
