# SPDX-License-Identifier: MIT
"""What debian/ says agrees with what is built: the symbols are the library's, and each installed file goes into the
package that installed_files.txt says, and into one only.

    debian_files_test.py             compares
    debian_files_test.py --update    writes the list of installed files anew

The build is $FREEWAY_BUILD_DIR (all of it is installed into a folder that is gone afterwards).
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
LIST = HERE / "installed_files.txt"
TITLE = "# What is installed, and Debian's package of each; written by debian_files_test.py --update."
BUILD = Path(os.environ["FREEWAY_BUILD_DIR"])
VERSION = os.environ["FREEWAY_VERSION"]
PACKAGES = ("libfreeway0", "libfreeway-jemalloc0", "libfreeway-shared0", "libfreeway-dev", "freeway")
PROFILE_PROGRAM = "libexec/freeway/freeway-profile"  # only where its libraries are


def faults_of_symbols(library: str, golden_list: str) -> list[str]:
    """debian/PACKAGE.symbols has just what the library exports."""
    golden = {line for line in (SOURCE / golden_list).read_text().split("\n")[1:] if line}
    name = f"debian/{library}0.symbols"
    head, _, *lines = (SOURCE / name).read_text().splitlines()
    faults = [] if head == f"{library}.so.0 {library}0 #MINVER#" else [f"{name} begins: {head}"]
    listed: set[str] = set()
    for line in lines:
        if found := re.fullmatch(r" (\w+)@Base \d+\.\d+\.\d+", line):
            listed.add(found[1])
        else:
            faults.append(f"{name}: not understood: {line}")
    faults += [f"{name} lacks {symbol}" for symbol in sorted(golden - listed)]
    return faults + [f"{name} has {symbol}, which is gone" for symbol in sorted(listed - golden)]


def installed_files() -> set[str]:
    """The files of an installation, as paths below the prefix; what differs between builds has one name."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    found = re.search(r"^CMAKE_INSTALL_LIBDIR:\w+=(.+)$", cache, re.MULTILINE)
    assert found is not None, "the build has no CMAKE_INSTALL_LIBDIR"
    with tempfile.TemporaryDirectory() as folder:
        command = ["cmake", "--install", BUILD, "--prefix", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        files = {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if not path.is_dir()}
    configuration = os.environ["FREEWAY_CONFIG"].lower()
    renamed = {re.sub(f"^{re.escape(found[1])}/", "lib/", file) for file in files}
    renamed = {file.replace(f"Targets-{configuration}.cmake", "Targets-CONFIG.cmake") for file in renamed}
    return {file.replace(f".so.{VERSION}", ".so.VERSION") for file in renamed}


def in_debian(file: str) -> str:
    """Where debian/rules puts an installed file."""
    triplet = "lib/x86_64-linux-gnu"
    if file.endswith("-gdb.py"):
        return file.replace("lib/", f"usr/share/gdb/auto-load/usr/{triplet}/", 1)
    if re.match(r"lib/libfreeway-(michael|lfmalloc|streamflow|hmalloc|nbbs)\.so", file):
        return file.replace("lib/", f"usr/{triplet}/freeway/", 1)
    return f"usr/{re.sub('^lib/', f'{triplet}/', file)}"


def packages_of(file: str) -> list[str]:
    """The packages whose debian/*.install takes a file, or a folder above it."""
    path = Path(in_debian(file))
    places = [str(path), *map(str, path.parents)]
    return [
        package
        for package in PACKAGES
        for pattern in (SOURCE / f"debian/{package}.install").read_text().split()
        if any(fnmatch.fnmatchcase(place, pattern) and place.count("/") == pattern.count("/") for place in places)
    ]


def main() -> int:
    files = installed_files()
    faults = faults_of_symbols("libfreeway", "tests/whole/golden/exported_symbols.txt")
    faults += faults_of_symbols("libfreeway-jemalloc", "tests/compat/jemalloc/exported_symbols.txt")
    faults += faults_of_symbols("libfreeway-shared", "shared/tests/exported_symbols.txt")
    lines: set[str] = set()
    for file in files:
        packages = packages_of(file)
        if len(packages) != 1:
            faults.append(f"{file} is in {' and '.join(packages) or 'no package'}")
        lines.add(f"{' '.join(packages)} {file}")
    if "--update" in sys.argv[1:]:
        LIST.write_text("\n".join([TITLE, *sorted(lines), ""]))
    golden = {line for line in LIST.read_text().split("\n")[1:] if line}
    if not (BUILD / "freeway-profile").exists():
        golden.discard(f"freeway {PROFILE_PROGRAM}")
    faults += [f"new: {line}" for line in sorted(lines - golden)] + [f"gone: {line}" for line in sorted(golden - lines)]
    for fault in faults:
        print(fault)
    print(f"{len(files)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
