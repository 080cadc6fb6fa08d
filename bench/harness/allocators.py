# SPDX-License-Identifier: MIT
#
# allocators.py: what can be measured: glibc's malloc, Freeway and its engines from a build, Debian's packages, and what
# `make peers` built, as its manifest says. An allocator that should be there and is not stays in the list with the
# reason, so that every table can name it.
"""Allocators: their libraries, versions and environment."""

from __future__ import annotations

import ctypes.util
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness.results import AllocatorRecord

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "build/peers/manifest.json"
GLIBC, FREEWAY, LOCKED = "glibc", "freeway", "locked"
ENGINES = ("michael", "lfmalloc", "streamflow", "hmalloc", "nbbs")
LIBRARY_DIRS = ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
                "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib")  # fmt: skip
# What the papers compare within one engine, and we: options of its library.
FORMS: dict[str, dict[str, dict[str, str]]] = {
    "michael": {"one-heap": {"HEAPS": "1"}},  # section 4.2.4
    "lfmalloc": {  # Table 3, the paper's locks, and ours
        **{form: {"PROTECTION": form} for form in ("cas-cpu", "cas-thread", "mutex-cpu", "mutex-thread",
                                                   "spin-cpu", "spin-thread")},
        "paper": {"REMOTE": "mutex", "GLOBAL": "mutex"},
        "remote-mutex": {"REMOTE": "mutex"},
        "global-mutex": {"GLOBAL": "mutex"},
    },
}  # fmt: skip
# Name, file and package of Debian's allocators.
DEBIAN = (
    ("mimalloc-2.0", "libmimalloc.so.2", "libmimalloc2.0"),
    ("jemalloc-5.3.0", "libjemalloc.so.2", "libjemalloc2"),
    ("tcmalloc-2.10", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ("tbbmalloc", "libtbbmalloc_proxy.so.2", "libtbbmalloc2"),
)
BUILT_PEERS = ("mimalloc2", "mimalloc3", "snmalloc", "jemalloc", "rpmalloc", "tcmalloc")
# Where the preferred one is missing, the one that stands for it in the suite `quick`.
STAND_INS = {"mimalloc3": "mimalloc-2.0", "jemalloc": "jemalloc-5.3.0", "tcmalloc": "tcmalloc-2.10"}


@dataclass(frozen=True)
class Allocator:
    """A library to preload (None: nothing, so glibc's malloc) and environment variables that go with it."""

    name: str
    library: Path | None
    variables: dict[str, str] = field(default_factory=dict)
    version: str = ""
    failed: str | None = None  # why it cannot be measured

    def record(self) -> AllocatorRecord:
        """For the results file, without folders of this machine."""
        variables = {k: v for k, v in self.variables.items() if k != "LD_LIBRARY_PATH"}
        library = self.library.resolve().name if self.library else None
        return AllocatorRecord(self.name, library, self.version, variables, self.failed)

    def environment(self) -> dict[str, str]:
        """The environment of a measured program: ours, without any allocator option that is set by chance."""
        unwanted = ("FREEWAY_", "MALLOC_", "MIMALLOC_", "TCMALLOC_", "LAB_", "LD_PRELOAD", "GLIBC_TUNABLES")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
        return {**kept, **self.variables}


def find_library(file: str) -> Path | None:
    """Where the system has a shared library."""
    return next((Path(folder) / file for folder in LIBRARY_DIRS if (Path(folder) / file).exists()), None)


def libc() -> Path:
    """glibc's own file: to be preloaded for programs that are linked with another malloc."""
    found = find_library(ctypes.util.find_library("c") or "libc.so.6")
    if found is None:
        raise FileNotFoundError("libc.so.6")
    return found


def content_version(library: Path) -> str:
    """The version in a library's file name, if any, and the first digits of its content's hash: builds differ."""
    number = re.search(r"\.so\.([\d.]+)$", library.resolve().name)
    digest = hashlib.sha256(library.read_bytes()).hexdigest()[:8]
    return f"{number[1]} ({digest})" if number else digest


def package_version(package: str) -> str:
    """Debian's version of an installed package; "" elsewhere."""
    command = ["dpkg-query", "-W", "-f", "${Version}", package]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def _ours(build: Path) -> list[Allocator]:
    def built(name: str, file: str, variables: dict[str, str]) -> Allocator:
        library = build / file
        if library.exists():
            return Allocator(name, library, variables, content_version(library))
        return Allocator(name, library, variables, failed=f"not built: {file}")

    found = [built(FREEWAY, "libfreeway.so", {"FREEWAY_RSEQ": "1"})]
    found.append(built(f"{FREEWAY}-no-rseq", "libfreeway.so", {"FREEWAY_RSEQ": "0"}))
    names = [path.name[len("libfreeway-") : -len(".so")] for path in sorted(build.glob("libfreeway-*.so"))]
    for name in dict.fromkeys([*ENGINES, *names]):
        engine, _, form = name.partition("-")
        if engine not in ENGINES or form == "counted" or form in FORMS.get(engine, {}):
            continue
        # libfreeway-hmalloc-local.so is for programs without threads: what a thread is started with is not local.
        if name != "hmalloc-local":
            found.append(built(name, f"libfreeway-{name}.so", {}))
        for form, options in FORMS.get(name, {}).items():
            variables = {f"FREEWAY_{option}": value for option, value in options.items()}
            found.append(built(f"{name}-{form}", f"libfreeway-{name}.so", variables))
    # The papers' benchmarks can tell HMalloc's engine which blocks are local (bench/workloads/papers/routes.h).
    found.append(built("hmalloc-local", "libfreeway-hmalloc.so", {"LAB_ROUTE": "explicit"}))
    locked = next(iter(build.glob("bench/peers/liblocked.so*")), None)
    if locked is None:
        found.append(Allocator(LOCKED, None, failed="not built: liblocked.so (target freeway_locked)"))
    else:
        found.append(Allocator(LOCKED, locked, {}, content_version(locked)))
    return found


def _debian() -> list[Allocator]:
    found = []
    for name, file, package in DEBIAN:
        library = find_library(file)
        failed = None if library else f"no {file}: Debian's package {package}"
        found.append(Allocator(name, library, {}, package_version(package) if library else "", failed))
    return found


def _from_manifest(manifest: Path) -> list[Allocator]:
    if not manifest.exists():
        return [Allocator(name, None, failed="not built: `make peers` builds it") for name in BUILT_PEERS]
    found = []
    for entry in json.loads(manifest.read_text()):
        library = manifest.parent / entry["library"] if entry.get("library") else None
        failed = entry.get("failed")
        if not failed and (library is None or not library.exists()):
            failed = f"no {library.name if library else 'library'}: `make peers` builds it"
        found.append(
            Allocator(entry["name"], library, entry.get("variables") or {}, entry.get("version") or "", failed)
        )
    return found


def known_allocators(build: Path, manifest: Path = MANIFEST) -> dict[str, Allocator]:
    """All of them by name. What the manifest has goes before Debian's of the same name."""
    system = Allocator(GLIBC, None, {}, os.confstr("CS_GNU_LIBC_VERSION") or "")
    peers = _from_manifest(manifest)
    named = {allocator.name for allocator in peers}
    others = [a for a in (*_ours(build), *_debian()) if a.name not in named]
    return {a.name: a for a in (system, *others, *peers) if a.name != GLIBC or a is system}


def parse(words: Iterable[str], known: dict[str, Allocator]) -> list[Allocator]:
    """`name` of a known one, or `name=path[:VAR=value]...` (an empty path: no library). ValueError if unknown."""
    chosen = []
    for word in words:
        name, separator, rest = word.partition("=")
        if not separator:
            if name not in known:
                raise ValueError(f"no allocator '{name}'; known: {', '.join(known)}; others as name=path")
            chosen.append(known[name])
            continue
        path, *settings = rest.split(":")
        variables = dict(setting.split("=", 1) for setting in settings if "=" in setting)
        if not path:
            chosen.append(Allocator(name, None, variables, known[GLIBC].version))
            continue
        library = Path(path).resolve()
        if not library.exists():
            raise ValueError(f"no library {path} for '{name}'")
        chosen.append(Allocator(name, library, variables, content_version(library)))
    return chosen
