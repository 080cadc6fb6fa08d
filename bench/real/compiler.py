# SPDX-License-Identifier: MIT
#
# compiler.py: g++ or clang++ compiles a C++20 file that is heavy on templates and the standard library, to assembly.
# One operation is one compilation. Checksum: the assembly (so it differs between versions of a compiler, not between
# mallocs).
"""A compilation of a C++ file."""

from __future__ import annotations

from driver import INPUTS, ROOT, arguments, digest, program, report, run

SOURCES = {"templates": INPUTS / "templates.cc", "library": ROOT / "tests/whole/programs/sources/compile_me.cc"}
PACKAGES = {"g++": "g++", "clang++": "clang"}


def main() -> None:
    """Compiles once; --shrink leaves out the optimiser."""
    options = arguments(__doc__, compiler=tuple(PACKAGES), source=tuple(SOURCES))
    compiler = program(options.compiler, PACKAGES[options.compiler])
    level = "-O2" if options.shrink == 1 else "-O0"
    # By its name in the folder of the source: the assembly has the name in it.
    source = SOURCES[options.source]
    used = run([compiler, "-std=c++20", level, "-S", source.name, "-o", "-"], cwd=source.parent)
    report(ops=1, used=used, checksum=digest(used.stdout))


if __name__ == "__main__":
    main()
