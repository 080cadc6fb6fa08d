# SPDX-License-Identifier: MIT
"""C libraries of Debian's suites: what a program needs of them at run time, and the oldest to link programs with."""

from __future__ import annotations

import functools
import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "machines"))
from emulated import MissingError, output_of, package_state, unpack

SUITES = ("bullseye", "bookworm", "trixie", "trixie-backports", "sid", "experimental")
OLDEST = "bullseye"
GLIBC_SUITES = ("bullseye", "bookworm", "trixie", "sid", "experimental")
MUSL_SUITE = "sid"
RUN_TIME = re.compile(r"(ld-linux[-\w]*|libc|libm|libpthread|libdl|librt|libgcc_s)\.so\.\d+")
LINK_TIME = re.compile(r"\w*crt\w*\.o|libc_nonshared\.a")


@dataclass(frozen=True)
class Architecture:
    """A processor, as Debian, GNU and the dynamic linkers call it."""

    name: str  # Debian's
    processor: str

    @property
    def triplet(self) -> str:
        return f"{self.processor}-linux-gnu"

    @property
    def loader(self) -> str:
        return "lib64/ld-linux-x86-64.so.2" if self.processor == "x86_64" else "lib/ld-linux-aarch64.so.1"

    @property
    def musl_loader(self) -> str:
        return f"lib/ld-musl-{self.processor}.so.1"


AMD64 = Architecture("amd64", "x86_64")
ARM64 = Architecture("arm64", "aarch64")


@functools.cache
def known_versions(work: Path, architecture: Architecture) -> str:
    """apt's table of the packages that are asked for here."""
    names = ["libc6", "libc6-dev", "libgcc-s1", "musl", "musl-dev"]
    return output_of(["apt-cache", "madison", *names], work, package_state(work, architecture.name, SUITES))


def version_in(package: str, suite: str, work: Path, architecture: Architecture) -> str:
    """The version of a package in a suite; experimental takes from sid what it has not."""
    for wanted in (suite, "sid") if suite == "experimental" else (suite,):
        for line in known_versions(work, architecture).splitlines():
            name, version, source = (field.strip() for field in line.split("|"))
            if name == package and f" {wanted}/main " in source:
                return version
    raise MissingError(f"{suite} has no {package}")


def package(name: str, suite: str, architecture: Architecture, work: Path) -> tuple[Path, str]:
    """Where a package of a suite lies unpacked, and its version up to the Debian revision."""
    version = version_in(name, suite, work, architecture)
    place = work / "packages" / f"{name}_{version}"
    unpack(f"{name}={version}", place, package_state(work, architecture.name, SUITES))
    return place, version.split("-")[0]


def files_like(pattern: re.Pattern[str], *places: Path) -> dict[str, Path]:
    """The files of these folders whose names fit, by name."""
    return {
        path.name: path
        for place in places
        for path in sorted(place.rglob("*"))
        if path.exists() and pattern.fullmatch(path.name)
    }


def glibc_root(suite: str, architecture: Architecture, work: Path) -> tuple[str, dict[str, bytes]]:
    """What the root is called, and its files: glibc and libgcc of a suite."""
    libc, version = package("libc6", suite, architecture, work)
    libgcc, _ = package("libgcc-s1", suite, architecture, work)
    found = files_like(RUN_TIME, libc / "lib", libc / "usr", libgcc)
    files = {f"lib/{architecture.triplet}/{name}": path.read_bytes() for name, path in found.items()}
    files[architecture.loader] = found[Path(architecture.loader).name].read_bytes()
    return f"glibc-{version}", files


def musl_root(architecture: Architecture, work: Path) -> tuple[str, dict[str, bytes]]:
    """The same of musl, whose loader is all there is."""
    place, version = package("musl", MUSL_SUITE, architecture, work)
    (loader,) = (path for path in place.rglob("libc.so") if path.is_file())
    return f"musl-{version}", {architecture.musl_loader: loader.read_bytes()}


def link_folder(architecture: Architecture, work: Path) -> Path:
    """A folder with the oldest glibc's files for the linker: what is linked with them runs under every newer one."""
    folder = work / "link"
    folder.mkdir(exist_ok=True)
    libc, _ = package("libc6", OLDEST, architecture, work)
    development, _ = package("libc6-dev", OLDEST, architecture, work)
    libgcc, _ = package("libgcc-s1", OLDEST, architecture, work)
    found = files_like(RUN_TIME, libc, libgcc) | files_like(LINK_TIME, development)
    for name, path in found.items():
        (folder / name).write_bytes(path.read_bytes())
        if name.startswith(("libm.", "libpthread.", "libdl.", "libgcc_s.")):
            (folder / f"{name.split('.')[0]}.so").write_bytes(path.read_bytes())
    (folder / "libc.so").write_text(f"GROUP(libc.so.6 libc_nonshared.a AS_NEEDED({Path(architecture.loader).name}))\n")
    return folder
