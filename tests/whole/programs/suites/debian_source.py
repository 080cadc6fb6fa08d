# SPDX-License-Identifier: MIT
"""Debian's source of a package, fetched and checked by apt; the system's own package lists are not touched."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "machines"))
from emulated import KEYRING, archive_address, output_of, require_tools


def fetch(work: Path, package: str, release: str = "bookworm", kept: Iterable[str] = ()) -> Path:
    """The source with Debian's changes, in work/source, of which only `kept` stays (all if it is empty).

    MissingError: no apt, no network, no such package."""
    source = work / "source"
    if source.exists():
        return source
    require_tools("dpkg-source")
    state = work / "apt"
    (state / "lists/partial").mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "sources.list").write_text(f"deb-src [signed-by={KEYRING}] {archive_address(work)} {release} main\n")
    settings = {
        "APT::Sandbox::User": "root",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "Dir::Etc::SourceList": state / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    output_of(["apt-get", *options, "update"], work)
    unpacked = work / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    output_of(["apt-get", *options, "source", package], unpacked)
    (root,) = (path for path in unpacked.iterdir() if path.is_dir())
    if kept:
        chosen = unpacked / "kept"
        for name in kept:
            (chosen / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).rename(chosen / name)
        root = chosen
    root.rename(source)  # it is there completely or not at all
    shutil.rmtree(unpacked)
    shutil.rmtree(state)
    return source
