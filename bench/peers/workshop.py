# SPDX-License-Identifier: MIT
#
# workshop.py: what every recipe uses: commands whose output goes to the peer's log, sources fetched by cargo, and the
# proof that a library is the malloc of a program it is preloaded into.
"""Commands, sources and proofs of recipes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PEERS = Path(__file__).resolve().parent
ROOT = PEERS.parents[1]
LAST_LINES = 8  # of the log, in the name of a failure
COMMAND_TIMEOUT_S = 1800
PROOF_TIMEOUT_S = 60
SPARSE_BY_DEFAULT = (1, 70)  # the first cargo that reads the registry's index a crate at a time unasked
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)


class RecipeError(Exception):
    """A peer cannot be made; the message says why, for people."""


@dataclass(frozen=True)
class Built:
    """A library that is there. `library` is None for the malloc that programs have by themselves."""

    library: Path | None
    version: str
    origin: str
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """How one peer is made. `inputs`: files that it is made of, besides the recipes; () if nothing is built."""

    name: str
    make: Callable[[Workshop], Built]
    inputs: tuple[Path, ...] = ()


def output_of(argv: Sequence[str]) -> str:
    """What a command prints; "" if it is missing or fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Ours without a preload, and `extra`."""
    return {**{k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}, **extra}


class Workshop:
    """The folder in which one peer is made, and its log."""

    def __init__(self, build: Path, name: str, jobs: int) -> None:
        self.build = build
        self.jobs = jobs
        self.folder = build / name
        self.log = self.folder / "log"
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, *argv: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        """Runs a command; RecipeError, with the last lines of what it said, if it fails."""
        words = [str(word) for word in argv]
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(words)}\n")
            log.flush()
            try:
                done = subprocess.run(
                    words,
                    cwd=cwd or self.folder,
                    env=clean_environment(env or {}),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=COMMAND_TIMEOUT_S,
                    check=False,
                )
            except OSError as error:
                raise RecipeError(f"cannot run {words[0]}: {error.strerror}") from error
            except subprocess.TimeoutExpired as error:
                raise RecipeError(f"{words[0]} did not end within {COMMAND_TIMEOUT_S} s") from error
        if done.returncode != 0:
            lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
            said = "\n".join(lines[-LAST_LINES:])
            raise RecipeError(f"{words[0]} ended with status {done.returncode}; the end of {self.log}:\n{said}")

    def fresh(self, name: str) -> Path:
        """An empty folder of the workshop."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def crate(self, project: str, crate: str, needs: tuple[int, int] = (1, 0)) -> Path:
        """The sources of a crate that crates/<project> pins; cargo checks them against Cargo.lock's checksums."""
        manifest = PEERS / "crates" / project / "Cargo.toml"
        vendor = self.build / "crates" / project
        key = digest([manifest, manifest.with_name("Cargo.lock")])
        stamp = vendor / "stamp"
        if not stamp.exists() or stamp.read_text() != key:
            shutil.rmtree(vendor, ignore_errors=True)
            version = cargo_version()
            if version < needs:
                wanted, found = (".".join(map(str, v)) for v in (needs, version))
                raise RecipeError(f"the crate {crate} needs cargo {wanted}, this is {found}")
            # Older ones would fetch the whole index by git. They know the other way, but call it unstable.
            sparse = version < SPARSE_BY_DEFAULT
            flags = ["-Z", "sparse-registry"] if sparse else []
            env = {"RUSTC_BOOTSTRAP": "1"} if sparse else {}
            command = ["cargo", *flags, "vendor", "--locked", "--manifest-path", manifest, vendor]
            self.run(*command, env=env)
            stamp.write_text(key)
        return vendor / crate


def cargo_version() -> tuple[int, int]:
    """Major and minor number; RecipeError without cargo."""
    match = re.match(r"cargo (\d+)\.(\d+)", output_of(["cargo", "--version"]))
    if match is None:
        raise RecipeError("cargo is not there; it fetches this peer's sources (Debian package cargo)")
    return int(match[1]), int(match[2])


def digest(files: Sequence[Path]) -> str:
    """Changes when one of the files does."""
    total = hashlib.sha256()
    for file in files:
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def debian_version(package: str) -> str:
    """The installed version; RecipeError if it is not."""
    version = output_of(["dpkg-query", "-W", "-f", "${Version}", package])
    if not version:
        raise RecipeError(f"the package {package} is not installed (scripts/install-packages peers)")
    return version


def system_library(file: str) -> Path:
    """A shared library of the system, links followed."""
    for folder in LIBRARY_FOLDERS:
        if (Path(folder) / file).exists():
            return Path(folder) / file
    raise RecipeError(f"there is no {file} in {', '.join(LIBRARY_FOLDERS)}")


def prove(workshop: Workshop, built: Built) -> None:
    """Runs proof.c under the library; RecipeError unless malloc and its like come from there and work."""
    program = workshop.build / "proof"
    source = PEERS / "proof.c"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        workshop.run("gcc", "-O1", "-fno-builtin", "-w", source, "-o", program, "-pthread", "-ldl")
    preload = {"LD_PRELOAD": str(built.library)} if built.library else {}
    try:
        done = subprocess.run(
            [str(program)],
            env=clean_environment({**preload, **built.variables}),
            capture_output=True,
            text=True,
            timeout=PROOF_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RecipeError(f"a small program did not end under it within {PROOF_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise RecipeError(f"a small program failed under it (status {done.returncode}): {done.stderr.strip()}")
    found = {Path(line).resolve() for line in done.stdout.splitlines()}
    wanted = (built.library or system_library("libc.so.6")).resolve()
    if found != {wanted}:
        others = ", ".join(sorted(str(path) for path in found - {wanted}))
        raise RecipeError(f"preloaded, but a part of malloc comes from {others}")


def entry(name: str, built: Built | None, failed: str | None) -> dict[str, Any]:
    """One peer of the manifest."""
    shown = asdict(built) if built else {"library": None, "version": "", "origin": "", "variables": {}}
    shown["library"] = str(shown["library"]) if shown["library"] else None
    return {"name": name, **shown, "failed": failed}


def make(recipe: Recipe, build: Path, jobs: int) -> dict[str, Any]:
    """Makes one peer, unless it is there already, and proves it. What goes wrong is in the entry, nothing is raised."""
    workshop = Workshop(build, recipe.name, jobs)
    stamp = workshop.folder / "built.json"
    built: Built | None = None
    try:
        key = digest([PEERS / "recipes.py", *recipe.inputs])
        if recipe.inputs and stamp.exists():
            kept = json.loads(stamp.read_text())
            if kept.pop("key") == key and Path(kept["library"]).exists():
                built = Built(**{**kept, "library": Path(kept["library"])})
        if built is None:
            stamp.unlink(missing_ok=True)
            workshop.log.write_text("")
            built = recipe.make(workshop)
        prove(workshop, built)
        if recipe.inputs:
            stamp.write_text(json.dumps({"key": key, **asdict(built), "library": str(built.library)}))
    except (RecipeError, OSError) as error:
        return entry(recipe.name, built, str(error))
    return entry(recipe.name, built, None)
