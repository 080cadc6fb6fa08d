# SPDX-License-Identifier: MIT
"""Tests of `freeway blocks` and `freeway classes`: what they say is what the process says of itself."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from looking import Looking, figures, look

WHOSE = re.compile(r": (?:CPU|spare slab) \d+$")
MODES = (
    {"FREEWAY_RSEQ": "1"},
    {"FREEWAY_RSEQ": "0"},
    {"FREEWAY_HARDEN": "1"},
    {"FREEWAY_GUARD": "1"},
    {"FREEWAY_GUARD": "0,large"},
    {"FREEWAY_PROFILE": "1"},  # each small block lies among those that are sampled
)


class Blocks(Looking):
    def own_words(self, count: int) -> list[str]:
        """What the process has said on fd 2: `count` explanations; of guarded blocks with the lines that follow."""
        assert self.process.stderr is not None
        self.process.kill()
        return self.process.stderr.read().decode().splitlines()

    def test_the_words_are_those_of_freeway_explain_to(self) -> None:
        for variables in MODES:
            with self.subTest(variables):
                pid, said = self.known("explain", **variables)
                seen = look("blocks", pid, *[f"{a:#x}" for a in said["addresses"]]).stdout.splitlines()
                seen = [WHOSE.sub("", line) for line in seen if line.startswith("freeway: ")]
                own = self.own_words(len(said["addresses"]))
                self.assertEqual(seen, own)
                text = "\n".join(own)
                for words in ("is the beginning of a live small block", "7 bytes inside a live", "free small block",
                              "live large block", "a mapping of its own", "is not Freeway's"):  # fmt: skip
                    self.assertIn(words, text)

    def test_blocks_of_heaps_are_not_in_a_threads_hand(self) -> None:
        for variables in MODES:
            pid, said = self.known("heaps", **variables)
            text = look("blocks", pid, f"{said['addresses'][0]:#x}").stdout
            self.assertRegex(text, "is a block's, or free: in a heap of the program's own\n")

    def test_who_allocated_what_was_sampled(self) -> None:
        pid, said = self.known(FREEWAY_PROFILE="1")
        text = look("blocks", pid, f"{said['addresses'][0]:#x}").stdout
        self.assertRegex(
            text, r"\n  sampled: \d+ bytes, \d+\.\d s old, allocated at\n    known_heap_shared\+0x[0-9a-f]+\n"
        )
        pid, said = self.known()
        self.assertNotIn("sampled", look("blocks", pid, f"{said['addresses'][0]:#x}").stdout)

    def test_of_a_core_file_too(self) -> None:
        pid, said = self.known("explain", FREEWAY_RSEQ="0")
        addresses = [f"{a:x}" for a in said["addresses"]]
        self.assertEqual(look("blocks", self.core(pid), *addresses).stdout, look("blocks", pid, *addresses).stdout)

    def test_whose_magazine_and_what_is_beside_it(self) -> None:
        pid, said = self.known(FREEWAY_RSEQ="0")
        cached = next(line for line in self.lines(pid, said) if re.match("freeway: .* in a magazine", line))
        self.assertRegex(cached, r"^freeway: 0x[0-9a-f]+ is .*: in a magazine: spare slab \d+$")
        text = look("blocks", pid, *[f"{a:#x}" for a in said["addresses"]]).stdout
        self.assertRegex(text, r"\n  size class \d+, block \d+ of \d+ in the superblock at 0x[0-9a-f]+0000: \d+ live, ")
        for neighbour in re.findall(r"\n  (before|behind) it (0x[0-9a-f]+) is (live|free)", text)[:10]:
            own = look("blocks", pid, neighbour[1]).stdout.splitlines()[0]
            self.assertIn(f"{neighbour[1]} is the beginning of a {neighbour[2]} small block", own)

    def lines(self, pid: int, said: dict[str, list[int]]) -> list[str]:
        return look("blocks", pid, *[f"0d{a}" for a in said["addresses"]]).stdout.splitlines()


class Classes(Looking):
    def test_they_add_up_to_what_stat_says(self) -> None:
        for variables in MODES:
            with self.subTest(variables):
                pid, said = self.known(**variables)
                rows = json.loads(look("classes", pid, "--json").stdout)["classes"]
                stat = figures(pid)
                small = said["live"] - said["large"] - said["huge"] - said["guarded"]
                self.assertEqual(sum(row["live"] for row in rows), small)
                self.assertEqual(sum(row["cached"] for row in rows), said["cached"])
                self.assertEqual(sum(row["free"] for row in rows), said["free_in_superblocks"])
                self.assertEqual(sum(row["superblocks"] for row in rows), stat["superblocks"])
                for name in ("slow_mallocs", "slow_frees", "refills", "flushes"):
                    self.assertEqual(sum(row[name] for row in rows), said[name], name)
                for row in rows:
                    for name in ("live", "cached", "free"):
                        self.assertEqual(row[name], row[f"{name}_blocks"] * row["size"])
                    self.assertEqual(row["blocks"], row["live_blocks"] + row["cached_blocks"] + row["free_blocks"])
                    self.assertEqual(row["waste"], row["bytes"] - row["live"])
                    self.within(row, "live_occupancy", row["live_blocks"])
                    self.within(row, "occupancy", row["live_blocks"] + row["cached_blocks"])

    def within(self, row: dict[str, Any], name: str, blocks: int) -> None:
        """Whether so many blocks can be live, or taken, if each superblock has as many as its tenth says."""
        self.assertEqual(sum(row[name]), row["superblocks"])
        each = row["blocks"] / max(row["superblocks"], 1)
        least = sum(n * (i / 10) * each for i, n in enumerate(row[name]))
        most = sum(n * ((i + 1) / 10) * each for i, n in enumerate(row[name]))
        self.assertTrue(least <= blocks <= most, row)

    def test_they_are_what_the_process_writes_at_its_end(self) -> None:
        for rseq in ("0", "1"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "stats.json"
                pid, _ = self.known(FREEWAY_RSEQ=rseq, FREEWAY_STATS=f"json:{path}")
                seen = json.loads(look("classes", pid, "--json").stdout)["classes"]
                whole = figures(pid)
                os.kill(pid, signal.SIGCONT)
                self.process.wait()
                own = json.loads(path.read_text())
                rows = {row["size"]: row for row in own["classes"]}
                self.assertEqual([row["size"] for row in seen], sorted(rows))
                for row in seen:
                    both = {name: value for name, value in row.items() if name in rows[row["size"]]}
                    self.assertGreaterEqual(len(both), 12)
                    self.assertEqual(both, {name: rows[row["size"]][name] for name in both})
                for name in ("schema", "version", "engine", "mode", "rseq_reason", "program", "pid", "page_size"):
                    self.assertEqual(whole[name], own[name][:15] if name == "program" else own[name], name)
                for name in ("allocated", "active", "retained", "live", "cached", "mapped", "metadata", "held"):
                    self.assertEqual(whole[name], own[name], name)

    def test_the_table_says_the_same(self) -> None:
        pid, _ = self.known()
        rows = json.loads(look("classes", pid, "--json").stdout)["classes"]
        rows = [row for row in rows if row["superblocks"] != 0]
        table = look("classes", pid).stdout.splitlines()
        self.assertEqual(len(table), len(rows) + 2)
        self.assertEqual(len({len(line) for line in table[:-1]}), 1)  # aligned
        for line, row in zip(table[1:], rows, strict=False):
            words = line.split()
            counts = ("superblocks", "blocks", "live_blocks", "cached_blocks", "free_blocks")
            expected = [row[name] for name in ("size", *counts)]
            self.assertEqual([int(word) for word in words[:6]], expected)
            self.assertEqual([0 if word == "." else int(word) for word in words[8:]], row["live_occupancy"])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
