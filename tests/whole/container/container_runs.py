# SPDX-License-Identifier: MIT
"""Which runs of the cache program a container has, and what each must end with."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

MEMORY = 128 << 20
ASKED = "768"  # MiB, by the program
KILLED = "signal 9"


@dataclass(frozen=True)
class Run:
    """The cache program under an allocator."""

    name: str
    preload: str = ""
    limit: str = ""
    must: str = ""  # what its end must be; empty: it is only told

    @property
    def environment(self) -> dict[str, str]:
        """What the run is given beside its environment."""
        return {"LD_PRELOAD": self.preload, "FREEWAY_LIMIT": self.limit}

    def fault(self, end: str, said: str) -> str:
        """What is wrong with its end and what it said; empty if nothing is."""
        wrong = self.must not in ("", end) or (self.limit != "" and "refused 0 times" in said)
        return f"{self.name}: {end}, not {self.must or 'with refusals'}: {said}" if wrong else ""


def peers() -> list[Run]:
    """The other allocators in build/peers that are there."""
    manifest = Path(os.environ["FREEWAY_SOURCE_DIR"]) / "build/peers/manifest.json"
    if not manifest.exists():
        return []
    found = {each["name"]: each["library"] for each in json.loads(manifest.read_text())}
    return [Run(name, library) for name, library in found.items() if library and Path(library).exists()]


def all_runs(library: str) -> list[Run]:
    """Those of the C library, of others, and of Freeway's `library` without and with limits."""
    limited = [Run(f"Freeway, FREEWAY_LIMIT={limit}", library, limit, "exit 0") for limit in (",90%", "60%,90%")]
    return [Run("the C library", must=KILLED), *peers(), Run("Freeway without a limit", library, must=KILLED), *limited]
