# SPDX-License-Identifier: MIT
"""Dumps for tests, what they stand for by the formula of freeway-profile(5), and how a converted profile is read."""

from __future__ import annotations

import gzip
import math
import os
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

COMMAND = Path(os.environ["FREEWAY_COMMAND"]).resolve()
MEASURES = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "waste")
PPROFS_OWN = MEASURES[:4]  # what pprof knows of a dump
INTERVAL = 524288
BAD_INPUT, WRONG_USAGE = 1, 2


@dataclass
class Sample:
    """A line of a dump: live and all blocks of `size` bytes."""

    live: int
    all: int
    size: int
    stack: list[int] = field(default_factory=lambda: [0x1000])
    labels: str = ""
    waste: float = 0.0  # what is expected to be attributed to it

    def text(self) -> str:
        addresses = "".join(f" {address:#x}" for address in self.stack)
        line = f"{self.live}: {self.live * self.size} [{self.all}: {self.all * self.size}] @{addresses}\n"
        return line + (f"#@ {self.labels}\n" if self.labels else "")

    def estimate(self, interval: int = INTERVAL) -> list[float]:
        """What it stands for, in the order of MEASURES."""
        factor = 1.0 if interval <= 1 else -1 / math.expm1(-self.size / interval)
        counts = [value * factor for value in (self.all, self.all * self.size, self.live, self.live * self.size)]
        return [*counts, self.waste]


# Blocks in superblocks. Of four of 1000 bytes three are known to pin 100, 200 and 300 bytes, so they count as 4 * 200;
# two of another stack pin 1500 each: 4 and 15 of 19 parts of their class's 1,900,000 bytes. Of the class of 64 bytes
# nothing is known: its 10,000 bytes go by blocks, and samples of 60 bytes stand for more of them than those of 64. No
# other pins anything.
WASTED = [
    Sample(4, 10, 1000, [0x401005, 0x403005], "site=5", waste=400000),
    Sample(2, 2, 1000, [0x402005, 0x403005], "site=9", waste=1500000),
    Sample(3, 4, 64, [0x402005, 0x403005], "site=6", waste=10000 * 3 / (3 + 64 / 60)),
    Sample(1, 4, 60, [0x404005], "site=7", waste=10000 * (64 / 60) / (3 + 64 / 60)),
    Sample(0, 5, 1000, [0x404005], "site=8"),
    Sample(2, 2, 3 << 20, [0x405005], "site=10"),
]
SUPERBLOCKS = """#class from=49 size=64 superblocks=1 sampled=1 bytes=65536 live=55536 cached=640 later=1
#class from=897 size=1024 superblocks=30 sampled=2 bytes=2000000 live=100000 cached=2048
#class from=1025 size=1280 superblocks=1 sampled=0 bytes=65536 live=64000 cached=0
"""
_PINNED = ((9, 1500), (5, 100), (5, 200), (9, 1500), (5, 300), (77, 1))  # by site
PINS = "".join(f"#pin {site} {bytes_}\n" for site, bytes_ in _PINNED)


# Small and large blocks, a stack in two lines of different sizes, one without live blocks, one that was never freed.
SAMPLES = [
    Sample(4, 10, 1000, [0x401005, 0x402005, 0x403005], "tag=7 age_ms=1500 lifetime_ms=20"),
    Sample(1, 3, 64, [0x401005, 0x402005, 0x403005], "age_ms=3000"),
    Sample(0, 5, 2048, [0x404005, 0x403005], "tag=8 lifetime_ms=4"),
    Sample(2, 2, 3 << 20, [0x405005], "tag=7"),
]
MAPS = """00400000-00401000 r--p 00000000 08:01 11  /no/such/program
00401000-00500000 r-xp 00001000 08:01 11  /no/such/program
7fff0000-7fff1000 rw-p 00000000 00:00 0   [stack]
"""
ABOUT = "pid=321 time_ns=1700000000000000000 program=/no/such/program mode=rseq samples=24 lost_stacks=0 lost_blocks=0"


def dump_of(
    samples: list[Sample],
    interval: int = INTERVAL,
    maps: str = MAPS,
    about: str = ABOUT,
    superblocks: str = "",
    pins: str = "",
) -> str:
    live, blocks = sum(s.live for s in samples), sum(s.all for s in samples)
    live_bytes, all_bytes = sum(s.live * s.size for s in samples), sum(s.all * s.size for s in samples)
    header = f"heap profile: {live}: {live_bytes} [{blocks}: {all_bytes}] @ heap_v2/{interval}\n"
    remarks = f"# freeway-profile 1\n# {about} interval={interval}\n"
    lines = "".join(s.text() for s in samples)
    return header + remarks + superblocks + lines + pins + "MAPPED_LIBRARIES:\n" + maps


def wasting_dump(interval: int = INTERVAL) -> str:
    return dump_of(WASTED, interval, superblocks=SUPERBLOCKS, pins=PINS)


def total(samples: list[Sample], interval: int = INTERVAL) -> list[float]:
    columns = zip(*(sample.estimate(interval) for sample in samples), strict=True)
    return [sum(column) for column in columns] or [0.0] * len(MEASURES)


def near(expected: float, samples: list[Sample]) -> float:
    """How far off a total may be: each sample is rounded, and pprof takes exp() instead of expm1()."""
    return len(samples) + 1e-7 * abs(expected)


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="freeway-profile-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    def run_profile(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(COMMAND), "profile", *arguments], input=stdin, capture_output=True, timeout=60, check=False
        )

    def profile(self, *arguments: str) -> str:
        """What the command prints, which must have been well, and without a word on fd 2."""
        outcome = self.run_profile(*arguments)
        self.assertEqual((outcome.returncode, outcome.stderr), (0, b""), arguments)
        return outcome.stdout.decode()

    def collapsed(self, *arguments: str) -> dict[str, int]:
        lines = self.profile("convert", "--format=collapsed", *arguments).splitlines()
        return {stack: int(value) for stack, value in (line.rsplit(" ", 1) for line in lines)}

    def proto(self, *arguments: str) -> Proto:
        out = str(self.folder / "converted.pb.gz")
        self.profile("convert", *arguments, "-o", out)
        return Proto(gzip.decompress(Path(out).read_bytes()))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of protobuf: numbers, and lengths with bytes; there are no others here."""
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 2:
            length = number()
            yield key >> 3, message[place : place + length]
            place += length
        else:
            raise AssertionError(f"wire type {key & 7}")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _packed(value: int | bytes) -> list[int]:
    if isinstance(value, int):
        return [value]
    # Packed numbers are written like the fields of a message, without their keys.
    numbers, current, shift = [], 0, 0
    for byte in value:
        current |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(current)
            current = shift = 0
    return numbers


class Proto:
    """A profile.proto, read by the numbers of its fields."""

    def __init__(self, message: bytes) -> None:
        self.all: dict[int, list[int | bytes]] = {}
        for key, value in _fields(message):
            self.all.setdefault(key, []).append(value)
        self.strings = [bytes(text).decode() for text in self.all[6]]  # type: ignore[arg-type]

    def _messages(self, key: int) -> list[dict[int, list[int | bytes]]]:
        found = []
        for message in self.all.get(key, []):
            fields: dict[int, list[int | bytes]] = {}
            for number, value in _fields(bytes(message)):  # type: ignore[arg-type]
                fields.setdefault(number, []).append(value)
            found.append(fields)
        return found

    def _text(self, message: dict[int, list[int | bytes]], key: int) -> str:
        return self.strings[int(message.get(key, [0])[0])]  # type: ignore[arg-type]

    def number(self, key: int) -> int:
        return int(self.all.get(key, [0])[0])  # type: ignore[arg-type]

    @property
    def sample_types(self) -> list[tuple[str, str]]:
        return [(self._text(each, 1), self._text(each, 2)) for each in self._messages(1)]

    @property
    def values(self) -> list[list[int]]:
        return [[_signed(number) for value in sample[2] for number in _packed(value)] for sample in self._messages(2)]

    @property
    def totals(self) -> list[int]:
        return [sum(column) for column in zip(*self.values, strict=True)] or [0] * len(MEASURES)

    @property
    def labels(self) -> list[dict[str, tuple[int, str]]]:
        """Of each sample: name to number and unit."""
        found = []
        for sample in self._messages(2):
            found.append({})
            for label in sample.get(3, []):
                fields = dict(_fields(bytes(label)))  # type: ignore[arg-type]
                key, unit = self.strings[int(fields[1])], self.strings[int(fields.get(4, 0))]
                found[-1][key] = (int(fields.get(2, fields.get(3, 0))), unit)
        return found

    @property
    def comments(self) -> list[str]:
        return [self.strings[index] for value in self.all.get(13, []) for index in _packed(value)]

    @property
    def mappings(self) -> list[tuple[str, str]]:
        """File and build id."""
        return [(self._text(each, 5), self._text(each, 6)) for each in self._messages(3)]

    @property
    def addresses(self) -> list[int]:
        """Of the first sample, the innermost first."""
        places = {int(each[1][0]): int(each[3][0]) for each in self._messages(4)}  # type: ignore[arg-type]
        return [places[place] for value in self._messages(2)[0][1] for place in _packed(value)]

    @property
    def stacks(self) -> list[list[str]]:
        """Of each sample the functions' names, or addresses, the innermost first."""
        functions = {int(each[1][0]): self._text(each, 2) for each in self._messages(5)}  # type: ignore[arg-type]
        locations: dict[int, list[str]] = {}
        for location in self._messages(4):
            lines = [dict(_fields(bytes(line))) for line in location.get(4, [])]  # type: ignore[arg-type]
            names = [functions[int(line[1])] for line in lines]
            locations[int(location[1][0])] = names or [hex(int(location[3][0]))]  # type: ignore[arg-type]
        return [
            [name for value in sample.get(1, []) for place in _packed(value) for name in locations[place]]
            for sample in self._messages(2)
        ]
