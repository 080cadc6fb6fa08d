# SPDX-License-Identifier: MIT
"""Tests of `freeway map`: the picture has every frame once, agrees with the figures, and needs no other file."""

from __future__ import annotations

import html.parser
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from looking import LIBRARY, REFUSED, WRONG_USAGE, Looking, figures, look

FRAME = 1 << 16
CLEAN, DIRTY, IN_HAND, HOLE, LARGE, SMALL = range(6)


class Reader(html.parser.HTMLParser):
    """The tags, the title, and what stands in cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.texts: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        tag = self.tags[-1] if self.tags else ""
        self.texts[tag] = self.texts.get(tag, "") + data


def heap_of(page: str) -> dict[str, Any]:
    match = re.search(r"^const heap = (\{.*?^\]\});$", page, re.M | re.S)
    assert match is not None
    text = re.sub(r"(\w+): ", r'"\1": ', match[1])
    return json.loads(re.sub(r",\s*\]", "]", text))


class Map(Looking):
    def page(self, target: object) -> str:
        return look("map", target, "-o", "-").stdout

    def test_every_frame_is_there_once_and_adds_up(self) -> None:
        for what, variables in (
            ("stop", {"FREEWAY_RSEQ": "1"}),
            ("stop", {"FREEWAY_RSEQ": "0"}),
            ("arenas", {}),
            ("arenas", {"FREEWAY_HARDEN": "1"}),  # and with far blocks
        ):
            with self.subTest(what=what, variables=variables):
                pid, said = self.known(what, **variables)
                heap = heap_of(self.page(pid))
                self.assertEqual(len(heap["arenas"]) > 1, what == "arenas")
                frames = dict.fromkeys(range(6), 0)
                live = cached = 0
                for arena in heap["arenas"]:
                    at = 0
                    for run in arena["runs"]:
                        self.assertEqual(run[0], at)
                        at += run[1]
                        frames[run[2]] += run[1]
                        if run[2] == SMALL:
                            live += run[4] * heap["classes"][run[3]]
                            cached += run[5] * heap["classes"][run[3]]
                            self.assertLessEqual(run[4] + run[5], run[6])
                    self.assertEqual(at, arena["frames"])
                self.assertEqual(frames[LARGE] * FRAME, said["large"])
                self.assertEqual(frames[DIRTY] * FRAME, said["dirty"])
                self.assertEqual(frames[CLEAN] * FRAME, figures(pid)["retained"])
                self.assertEqual((frames[LARGE] + frames[SMALL] + frames[DIRTY]) * FRAME, said["mapped"] - said["huge"])
                self.assertEqual((frames[IN_HAND], frames[HOLE]), (0, 0))
                self.assertEqual(live, said["live"] - said["large"] - said["huge"])
                self.assertEqual(cached, said["cached"])

    def test_huge_blocks_and_classes_are_in_tables(self) -> None:
        pid, said = self.known()
        text = self.page(pid)
        self.assertIn(f"<td>{said['huge'] / (1 << 20):.1f} MiB</tr>", text)
        found = re.findall(r'<tr data-stuck="(\d+)"><td>(\d+)<td><i class="swatch" data-class="\d+"></i><td>', text)
        stuck = [int(each) for each, _ in found]
        self.assertEqual(stuck, sorted(stuck, reverse=True))
        rows = [row for row in json.loads(look("classes", pid, "--json").stdout)["classes"] if row["superblocks"] != 0]
        self.assertEqual({int(size): True for _, size in found}, {row["size"]: True for row in rows})
        self.assertLess(sum(stuck), sum(row["waste"] for row in rows), "nobody has touched most of it")

    def test_of_a_core_file_it_is_the_same_picture(self) -> None:
        pid, _ = self.known()
        self.assertEqual(heap_of(self.page(self.core(pid))), heap_of(self.page(pid)))

    def test_the_page_needs_nothing_else(self) -> None:
        pid, _ = self.known()
        text = self.page(pid)
        page = Reader(text)
        self.assertNotRegex(text, r"https?:|//[a-z]+\.|@import|url\(|fetch\(|XMLHttp|<link|<img|<iframe")
        self.assertFalse({"src", "href", "onclick", "onload", "action"} & set(page.attributes))
        self.assertIn("default-src 'none'", text)
        self.assertEqual(page.tags.count("script"), 1)

    def test_a_programs_name_is_text(self) -> None:
        name = "<script>'\"&"
        code = f"open('/proc/self/comm', 'w').write({name!r}); import os; os.kill(os.getpid(), 19)"
        pid = self.start(sys.executable, "-c", code, LD_PRELOAD=str(LIBRARY)).pid
        text = self.page(pid)
        page = Reader(text)
        self.assertEqual(page.tags.count("script"), 1)
        self.assertEqual(page.texts["h1"].split(" (")[0], name)
        self.assertNotIn(name, text)

    def test_where_it_goes(self) -> None:
        pid, _ = self.known()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "heap.html"
            self.assertEqual(look("map", pid, "-o", path).stdout, "")
            self.assertEqual(path.read_text(), self.page(pid))
            look("map", pid, "-o", f"{folder}/no/such/folder", status=REFUSED)
            done = look("map", pid, cwd=folder)
            self.assertEqual((Path(folder) / f"freeway-map.{pid}.html").read_text(), path.read_text())
            self.assertIn(f"freeway-map.{pid}.html", done.stdout)
        for arguments in ((), ("-o", "-"), (pid, "-o"), (pid, pid, "-o", "-"), (pid, "--html", "-")):
            look("map", *arguments, status=WRONG_USAGE)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
