# SPDX-License-Identifier: MIT
#
# PostgreSQL as Debian's release has it, unpacked in the build folder, and the tests from the source of the same
# version: a server that is installed may be newer than the source. Its programs find their files from where they are.
#
# A server refuses to run for root. Root runs all of it as `nobody`, who must be able to read the build folder.
"""PostgreSQL's programs and tests in the build folder, and how they are run by an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import suite  # noqa: F401  (it says where the others are)
from debian_source import fetch
from emulated import MissingError, output_of, package_state, require_tools, unpack
from preload import library

RELEASE = "bookworm"
VERSION = "15"
# The server; psql and what runs tests; the headers.
PACKAGES = tuple(f"postgresql{kind}-{VERSION}" for kind in ("", "-client", "-server-dev"))
TESTS = ("src/test/regress", "src/test/isolation", "src/pl/plpgsql/src")
PROGRAMS = {"initdb": 0, "pg_ctl": 0, "postgres": 0, "psql": 1}  # of which package
MODULES = ("autoinc.so", "refint.so")
USER, GROUP = "nobody", "nogroup"


def place_of(work: Path, package: int) -> Path:
    """Where a package has PostgreSQL's programs and libraries."""
    return work / PACKAGES[package] / "usr/lib/postgresql" / VERSION


def driver(work: Path, name: str) -> Path:
    """A program that runs tests."""
    folder = "isolation" if "isolation" in name else "regress"
    return place_of(work, 1) / "lib/pgxs/src/test" / folder / name


def require_libraries(work: Path) -> None:
    """MissingError unless the libraries that the packages depend on are installed."""
    files = [work / "bin" / name for name in PROGRAMS] + [place_of(work, 0) / "lib/llvmjit.so"]
    said = output_of(["ldd", *(file.resolve() for file in files)], work)
    if missing := {line.split()[0] for line in said.splitlines() if "not found" in line}:
        raise MissingError(f"{', '.join(sorted(missing))} missing")


def build(work: Path) -> None:
    """Fetches all, and compiles the one module that only the tests use."""
    require_tools("gcc", "setpriv")
    source = fetch(work, f"postgresql-{VERSION}", RELEASE, TESTS)
    if any(not (work / package).exists() for package in PACKAGES):
        architecture = output_of(["dpkg", "--print-architecture"], work).strip()
        environment = package_state(work, architecture, (RELEASE,))
        for package in PACKAGES:
            unpack(package, work / package, environment)
    for folder in ("bin", "modules"):
        (work / folder).mkdir(exist_ok=True)
    links = {f"bin/{name}": place_of(work, package) / "bin" / name for name, package in PROGRAMS.items()}
    links |= {f"modules/{name}": place_of(work, 0) / "lib" / name for name in MODULES}
    for name, target in links.items():
        (work / name).unlink(missing_ok=True)
        (work / name).symlink_to(target)
    require_libraries(work)
    module = work / "modules/regress.so"
    if not module.exists():
        headers = work / PACKAGES[2] / "usr/include/postgresql"
        includes = [f"-I{headers / VERSION / 'server'}", f"-I{headers}"]
        compiler = ["gcc", "-shared", "-fPIC", "-O2", "-w", *includes]
        made = work / "regress.so"
        output_of([*compiler, source / TESTS[0] / "regress.c", "-o", made], work)
        made.rename(module)
    as_user(work / "bin/postgres")


def as_user(*argv: str | Path) -> list[str]:
    """The command, for one who may run a server; MissingError if that user cannot read what it needs."""
    words = [str(word) for word in argv]
    if os.geteuid() != 0:
        return words
    switch = ["setpriv", f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups"]
    for file in (words[0], str(library())):
        if subprocess.run([*switch, "test", "-r", file], check=False).returncode != 0:
            raise MissingError(f"{USER} cannot read {file}, and root may not run PostgreSQL")
    return [*switch, *words]


def folder_of_user(place: Path) -> Path:
    """A fresh folder that belongs to who runs the server."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if os.geteuid() == 0:
        shutil.chown(place, USER, GROUP)
    return place
