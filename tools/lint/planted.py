# SPDX-License-Identifier: MIT
"""A throw-away source tree for the tests of the lints, into which they plant faults."""

from __future__ import annotations

from pathlib import Path

LICENCE = "// SPDX-License-Identifier: MIT\n"


class Tree:
    """A small tree that every lint accepts: layers base, arch, sync, superblock, pages, cache, abi."""

    layers = ("base", "arch", "os", "sync", "pages", "superblock", "cache", "abi")

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("src/LAYERS", "\n".join(self.layers) + "\n")
        for folder in self.layers:
            self.write(f"src/{folder}/README.md", f"# {folder}\nWhat it is.\n")

    def write(self, path: str, text: str) -> None:
        """Writes a file below the root."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def source(self, path: str, text: str) -> None:
        """Writes a source file, its licence line added: `text` begins on line 2."""
        self.write(path, LICENCE + text)
