# SPDX-License-Identifier: MIT
"""Whether packaging/rust/freeway-sys/recipe.txt builds what CMake builds as libfreeway.a, with the same flags.

So no new source file can be forgotten in the Rust crate. `recipe.py --write` brings the recipe up to date. CMake's side
is its compile_commands.json, in FREEWAY_BUILD_DIR.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SYS = ROOT / "packaging/rust/freeway-sys"
RECIPE = SYS / "recipe.txt"
PROCESSORS = ("x86_64", "aarch64")
TARGETS = tuple(f"CMakeFiles/freeway_{part}_compiled.dir/" for part in ("core", "abi", "common"))
# What says nothing about the code, or what build.rs sets by itself.
# Nor what makes it small or fast: there Rust's profile speaks, and each source with a flag of its own is an archive.
LEFT_OUT = ("-W", "-D", "-I", "-isystem", "-O", "-g", "-fPIC", "-c", "-o", "--param", "-fno-align")

Lines = set[str]


def cmake_lines(commands: list[dict[str, str]], root: Path, processor: str) -> Lines:
    """Lines of a recipe, of what CMake compiles for the static library."""
    flags: dict[str, list[str]] = {}
    for command in commands:
        words = shlex.split(command["command"])
        output = words[words.index("-o") + 1]
        if output.startswith(TARGETS):
            path = Path(command["file"]).relative_to(root).as_posix().replace(f"/{processor}/", "/{arch}/")
            flags[path] = [word for word in words if word.startswith("-") and not word.startswith(LEFT_OUT)]
    cxx = [set(own) for path, own in flags.items() if path.endswith(".cc")]
    shared = set.intersection(*cxx) if cxx else set()
    lines = {f"flag {flag}" for flag in shared}
    for path, own in flags.items():
        lines.add(" ".join(["source", path, *sorted(set(own) - shared)]))
    return lines


def recipe_lines(text: str, processor: str) -> Lines:
    """The recipe's lines for `processor`."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    own = [line.replace(f"flag-{processor} ", "flag ") for line in lines]
    return {line for line in own if not line.startswith("flag-")}


def missing_files(lines: Lines, root: Path) -> list[str]:
    """Sources of these lines that are not there, for any processor."""
    paths = [line.split()[1] for line in lines if line.startswith("source ")]
    found = {path.replace("{arch}", processor) for path in paths for processor in PROCESSORS}
    return sorted(path for path in found if not (root / path).is_file())


def unpackaged(lines: Lines, manifest: str) -> list[str]:
    """Folders of these sources that freeway-sys/Cargo.toml does not include."""
    folders = {"/".join(line.split()[1].split("/")[:2]) for line in lines if line.startswith("source ")}
    return sorted(folder for folder in folders if f'"/freeway/{folder}/' not in manifest)


def rewrite(text: str, wanted: Lines, processor: str) -> str:
    """The recipe's text with `wanted` in the place of its lines; flags of the processors stay as they are."""
    kept = [line for line in text.splitlines() if line.startswith(("#", "flag-"))]
    of_processor = {line.replace(f"flag-{processor} ", "flag ") for line in kept}
    return "\n".join([*kept, *sorted(wanted - of_processor)]) + "\n"


def main() -> int:
    """Compares, or writes; exit status 1 if something differs."""
    parser = argparse.ArgumentParser(description="The Rust crate's recipe beside CMake's.")
    parser.add_argument("--write", action="store_true", help="write the recipe anew")
    arguments = parser.parse_args()
    processor = platform.machine()
    commands = json.loads((Path(os.environ["FREEWAY_BUILD_DIR"]) / "compile_commands.json").read_text())
    wanted = cmake_lines(commands, ROOT, processor)
    if not any(line.startswith("source ") for line in wanted):
        print("compile_commands.json tells of no source of the library")
        return 1
    if arguments.write:
        RECIPE.write_text(rewrite(RECIPE.read_text(), wanted, processor))
    found = recipe_lines(RECIPE.read_text(), processor)
    faults = [f"only CMake has: {line}" for line in sorted(wanted - found)]
    faults += [f"only the recipe has: {line}" for line in sorted(found - wanted)]
    faults += [f"there is no {path}" for path in missing_files(found, ROOT)]
    manifest = (SYS / "Cargo.toml").read_text()
    faults += [f"Cargo.toml does not include {folder}" for folder in unpackaged(found, manifest)]
    for fault in faults:
        print(fault)
    if faults:
        print(f"{RECIPE.relative_to(ROOT)} and CMakeLists.txt differ: recipe.py --write")
    else:
        print(f"{len(wanted)} lines, the same")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
