# SPDX-License-Identifier: MIT
#
# g++ and clang++ under the preload: the object files and programs that they make must be the same, byte for byte, as
# those made without it; and the program must say the same under the preload. Argument: gxx or clangxx.
"""Compilers: byte-identical output."""

from __future__ import annotations

import sys
from pathlib import Path

from preload import SOURCES, check, main, need, prove_preload, same, succeed

SOURCE = str(SOURCES / "compile_me.cc")
# One seed, or g++'s symbols for unnamed namespaces under -flto would differ from run to run without any preload.
COMMON = ["-std=c++20", "-pthread", "-frandom-seed=1"]


def products(folder: Path, compiler: str, preload: bool, *options: str) -> dict[str, bytes]:
    """What one compilation and one link leave behind; the names are the same in both runs, they are in the files."""
    succeed([compiler, *COMMON, *options, "-c", SOURCE, "-o", "compiled.o"], preload=preload, cwd=folder)
    succeed([compiler, *COMMON, *options, "compiled.o", "-o", "linked"], preload=preload, cwd=folder)
    made = {name: (folder / name).read_bytes() for name in ("compiled.o", "linked")}
    check(min(map(len, made.values())) > 10_000, f"{compiler} left hardly anything behind")
    return made


def compare(folder: Path, compiler: str, *options: str) -> None:
    """Both runs with these options, then the program itself in both ways."""
    plain, preloaded = (products(folder, compiler, preload, *options) for preload in (False, True))
    for name, content in plain.items():
        check(content == preloaded[name], f"{compiler} {' '.join(options)}: {name} differs from the one made without")
    program = str(folder / "linked")
    prove_preload([program])
    same([program])


def gxx(folder: Path) -> None:
    """g++ drives cc1plus, as, collect2 and ld; each must run on the library."""
    compiler = need("g++", "g++")
    tiny = folder / "tiny.cc"
    tiny.write_text("int main() {}\n")
    prove_preload([compiler, str(tiny), "-o", str(folder / "tiny")], ["cc1plus", "as", "ld"], cwd=folder)
    compare(folder, compiler, "-O1", "-g")
    if "long" in sys.argv[2:]:
        compare(folder, compiler, "-O3", "-flto=2")
        compare(folder, compiler, "-O0", "-fsanitize=undefined")


def clangxx(folder: Path) -> None:
    """clang++ and the linker."""
    compiler = need("clang++", "clang")
    prove_preload([compiler, "--version"])
    compare(folder, compiler, "-O1", "-g")
    if "long" in sys.argv[2:]:
        compare(folder, compiler, "-O3", "-fno-inline")


if __name__ == "__main__":
    chosen = {"gxx": gxx, "clangxx": clangxx}
    if len(sys.argv) < 2 or sys.argv[1] not in chosen:
        sys.exit("usage: compilers.py gxx|clangxx [long]")
    main(chosen[sys.argv[1]])
