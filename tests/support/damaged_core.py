# SPDX-License-Identifier: MIT
"""A core file with garbage in it: in Freeway's description, in the file's own headers and notes, or anywhere else."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"Freeway's heap\n\0"
BYTES_AT = 28  # where freeway_debug_t has its own length
ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
LOAD = 1


def busy_place(content: bytes, chance: random.Random) -> int:
    """A word that is not 0: so mostly metadata."""
    while True:
        at = chance.randrange(len(content) - 8) & ~7
        if content[at : at + 8] != b"\0" * 8:
            return at


def damages(path: Path, chance: random.Random, turns: int) -> Iterator[int]:
    """For each turn the file is damaged in some places, and mended afterwards."""
    content = path.read_bytes()
    description = content.index(MAGIC)
    (length,) = struct.unpack_from("<I", content, description + BYTES_AT)
    with path.open("r+b") as file:
        for turn in range(turns):
            changes = []
            for _ in range(chance.choice((1, 3, 30))):
                inside = description + chance.randrange(length)
                at = chance.choice((inside, chance.randrange(0x1000), busy_place(content, chance)))
                garbage = chance.choice(
                    (b"\xff" * 8, b"\0" * 8, chance.randbytes(8), chance.randbytes(1), chance.randbytes(4))
                )
                changes.append((at, content[at : at + len(garbage)]))
                file.seek(at)
                file.write(garbage)
            file.flush()
            yield turn
            for at, before in reversed(changes):
                file.seek(at)
                file.write(before)


def displaced_segments(path: Path) -> Iterator[int]:
    """For each turn one of the segments ends a word before the address space does, and is put back afterwards."""
    header = ELF_HEADER.unpack_from(path.read_bytes())
    first, count = header[5], header[10]
    with path.open("r+b") as file:
        for at in range(first, first + count * SEGMENT.size, SEGMENT.size):
            file.seek(at)
            before = file.read(SEGMENT.size)
            kind, flags, offset, _, physical, in_file, in_memory, alignment = SEGMENT.unpack(before)
            if kind != LOAD or in_file == 0:
                continue
            place = 2**64 - 8 - in_memory
            file.seek(at)
            file.write(SEGMENT.pack(kind, flags, offset, place, physical, in_file, in_memory, alignment))
            file.flush()
            yield at
            file.seek(at)
            file.write(before)
