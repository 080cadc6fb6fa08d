# SPDX-License-Identifier: MIT
"""Tests of `freeway stat`: what it says of another process is what that process says of itself."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from looking import KNOWN, LIBRARY, REFUSED, VARIABLES, WRONG_USAGE, Looking, figures, look, state_of

# In the hands of a thread that stands in a refill or a flush: a batch, and the block that it is about.
MOST_IN_HAND = 2 * 128 + 1


class Stat(Looking):
    def test_of_a_quiet_process_every_figure_is_its_own(self) -> None:
        for variables in (
            {"FREEWAY_RSEQ": "1"},
            {"FREEWAY_RSEQ": "0"},
            {"FREEWAY_HARDEN": "1"},
            {"FREEWAY_GUARD": "1"},
            {"FREEWAY_LIMIT": "400m,500m"},
            {"FREEWAY_GUARD": "0,large"},
            {"FREEWAY_PROFILE": "4k"},
        ):
            with self.subTest(variables):
                pid, said = self.known(**variables)
                seen = figures(pid)
                self.check_figures(said, seen)
                self.assertGreater(said["cached"], 0)
                self.assertEqual(seen["pid"], pid)
                self.assertEqual(seen["page_size"], os.sysconf("SC_PAGE_SIZE"))
                self.assertGreater(seen["resident"], 1 << 19)
                self.assertLess(abs(seen["time_ns"] - time.time_ns()), 60 * 10**9)

    def test_guarded_blocks_and_limits_are_among_them(self) -> None:
        _, said = self.known(FREEWAY_GUARD="1", FREEWAY_LIMIT="400m,500m")
        self.assertGreater(said["guarded_blocks"], 0)
        self.assertEqual(said["hard_limit"], 500 << 20)

    def test_several_arenas_are_one_heap(self) -> None:
        pid, said = self.known("arenas")
        self.assertGreater(said["large"], 64 << 30)
        self.check_figures(said, figures(pid))

    def test_heaps_of_the_program_are_part_of_it(self) -> None:
        pid, said = self.known("heaps")
        self.check_figures(said, figures(pid))

    def test_a_process_may_be_named_by_its_program(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            name = f"heap-{os.getpid()}-of-a-long-name"  # the kernel keeps 15 bytes of it
            program = Path(shutil.copy(KNOWN, f"{folder}/{name}"))
            pid, said = self.known(program=str(program))
            self.check_figures(said, figures(name))
            self.assertEqual(figures(name)["pid"], pid)
            for command in ("top", "classes", "map"):
                look(command, name, *(["--once"] if command == "top" else []), cwd=folder)
            self.assertIn("is no address", look("blocks", name, "x", status=WRONG_USAGE).stderr)
            look("blocks", name, "1000")
            self.assertTrue((Path(folder) / f"freeway-map.{pid}.html").exists())
            # A path is a file's, which is no core file here, whatever processes are called.
            look("stat", f"./{name}", status=REFUSED, cwd=folder)
            other, _ = self.known(program=str(program))
            self.assertIn(f"2 processes are named {name}", look("stat", name, status=REFUSED).stderr)
            self.assertIn(f"({min(pid, other)}, {max(pid, other)})", look("stat", name, status=REFUSED).stderr)
        self.assertIn("there is no process and no core file", look("stat", "no-such-name", status=REFUSED).stderr)

    def test_who_is_looked_at_is_not_disturbed(self) -> None:
        pid, said = self.known()
        before = self.memory_of(pid)
        for command in (
            ["stat"],
            ["classes"],
            ["blocks", hex(said["addresses"][0])],
            ["map", "-o", "-"],
            ["top", "--once"],
        ):
            look(command[0], pid, *command[1:])
        self.assertEqual(state_of(pid), "T")
        self.assertEqual(self.memory_of(pid), before)  # that nobody has touched gets no memory by being read
        self.check_figures(said, figures(pid))

    @staticmethod
    def memory_of(pid: int) -> str:
        return next(s for s in Path(f"/proc/{pid}/status").read_text().splitlines() if s.startswith("RssAnon"))

    def test_threads_may_go_on_meanwhile(self) -> None:
        for rseq in ("0", "1"):
            pid, said = self.known("busy", "3", FREEWAY_RSEQ=rseq)
            for _ in range(10):
                seen = figures(pid)
                # Nothing that was there is missed, nor counted many times over.
                self.assertGreater(seen["live"], said["live"] - (1 << 20))
                self.assertLess(seen["live"], said["live"] + (400 << 20))
                self.assertGreaterEqual(seen["mapped"], seen["huge"])

    def test_so_may_one_that_is_stopped_anywhere(self) -> None:
        pid, said = self.known("busy", "2")
        for _ in range(10):
            os.kill(pid, signal.SIGSTOP)
            while state_of(pid) != "T":
                time.sleep(0.001)
            first, second = figures(pid), figures(pid)
            for name in said:
                if name not in ("addresses", "hands"):
                    self.assertEqual(first[name], second[name], name)
            extra = first["live_blocks"] - said["live_blocks"]
            self.assertTrue(-MOST_IN_HAND <= extra <= 2 * (64 + MOST_IN_HAND), extra)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.002)

    def test_what_is_in_memory_is_told_from_what_is_only_mapped(self) -> None:
        """Of 40 MB of blocks, half of each freed, and as much more of a block that nobody has touched."""
        code = (
            "import ctypes, os; x = [b'%05d' % i * 200 for i in range(40000)]; del x[::2]; "
            "ctypes.CDLL(None).malloc(ctypes.c_size_t(1 << 28)); os.kill(os.getpid(), 19)"
        )
        pid = self.start(sys.executable, "-c", code, LD_PRELOAD=str(LIBRARY)).pid
        seen = figures(pid)
        parts = ("live", "cached", "stuck", "free", "metadata")
        self.assertEqual(seen["resident_heap"], sum(seen[f"resident_{each}"] for each in parts))
        anonymous = int(self.memory_of(pid).split()[1]) * 1024
        self.assertLess(seen["resident_heap"], anonymous + (1 << 20))
        self.assertGreater(seen["resident_heap"], anonymous - (8 << 20), "the rest is stacks and data")
        self.assertGreater(seen["live"], 1 << 28)
        self.assertTrue(20 * 10**6 < seen["resident_live"] < 60 * 10**6, seen)
        self.assertTrue(10 * 10**6 < seen["resident_stuck"] < 40 * 10**6, seen)

    def test_people_read_one_sentence_and_then_where_the_memory_is(self) -> None:
        pid, _ = self.known()
        size = r"\d[\d.]* [KMG]?i?B"
        lines = look("stat", pid).stdout.splitlines()
        self.assertRegex(lines[0], rf"^known_heap\S* \({pid}\), Freeway \S+, \w+$")
        self.assertRegex(lines[1], rf"^{size} resident, {size} of it the heap's, of which \d+ % is live$")
        self.assertEqual([each.split()[0] for each in lines[2:7]], ["live", "cached", "stuck", "free", "metadata"])
        self.assertRegex(lines[2], r"\d blocks?; 3\d\d\.\d MiB more not touched$")
        self.assertEqual([line for line in lines if len(line) > 80], [])
        self.assertNotIn("slow path", "\n".join(lines))
        self.assertIn("slow path", look("stat", pid, "--verbose").stdout)

    def test_all_who_look_say_the_same_words(self) -> None:
        """`stat`, `top`, `map`, `classes`, of core files too, and FREEWAY_STATS: one word for a kind of memory."""
        pid, _ = self.known()
        meanings = dict(re.findall(r"(?m)^  (\w+) +\S+ \S+  (\S.*)$", look("stat", pid).stdout))
        words = {"live", "cached", "stuck", "free", "metadata"}
        self.assertEqual(set(meanings), words)
        of_core = dict(re.findall(r"(?m)^  (\w+) +\S+ \S+  (\S.*)$", look("stat", self.core(pid)).stdout))
        own = subprocess.run(
            ["ls", "/"], env=VARIABLES | {"LD_PRELOAD": str(LIBRARY), "FREEWAY_STATS": "1"},
            capture_output=True, text=True, check=True,
        ).stderr  # fmt: skip
        of_report = dict(re.findall(r"(?m)^  (\w+) +\S+ \S+  (\S.*)$", own))
        for word in words - {"live"}:
            self.assertEqual((of_core[word], of_report[word]), (meanings[word], meanings[word]))
        top, page = look("top", pid, "--once").stdout, look("map", pid, "-o", "-").stdout
        self.assertEqual(
            re.findall(r"(?m)^  (\w+) +[\d.]+ [KMG]?i?B  ", top), ["resident", "live", "cached", "stuck", "free"]
        )
        self.assertEqual(set(re.findall(r'<div title="[^"]+">(\w+)<b>', page)), words)
        self.assertLessEqual({"live", "cached", "stuck"}, set(look("classes", pid).stdout.splitlines()[0].split()))
        for text in (top, page, own, look("classes", pid).stdout, look("stat", pid, "--verbose").stdout):
            self.assertNotRegex(text, r"(?i)\bdirty|given back|magazine|\bwaste|in the hands")

    def test_before_the_first_malloc_there_is_nothing(self) -> None:
        seen = figures(self.start(KNOWN, "none").pid)
        self.assertEqual((seen["live"], seen["mapped"], seen["metadata"], seen["retained"]), (0, 0, 0, 0))


class Prometheus(Looking):
    LINE = re.compile(r'([a-z_]+)\{pid="(\d+)",program="([^"\\\n]*)"\} (\d+)')

    def test_the_exposition_is_well_formed_and_says_the_same(self) -> None:
        pid, said = self.known()
        lines = look("stat", "--prometheus", pid).stdout.splitlines()
        self.assertEqual(len(lines) % 3, 0)
        values = {}
        for note, kind, sample in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
            match = self.LINE.fullmatch(sample)
            assert match is not None, sample
            name = match[1]
            self.assertRegex(note, rf"^# HELP {name} \S.*\.$")
            self.assertEqual(kind, f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
            self.assertNotIn(name, values)
            values[name] = int(match[4])
            self.assertEqual(match[2], str(pid))
        for name, value in said.items():
            if name not in ("addresses", "hands"):
                self.assertIn(
                    value, [values.get(f"freeway_{name}{end}") for end in ("", "_bytes", "_total", "_bytes_total")]
                )
        self.assertEqual(values["freeway_live_bytes"], said["live"])
        self.assertEqual(values["freeway_slow_mallocs_total"], said["slow_mallocs"])

    def test_a_programs_name_cannot_break_out(self) -> None:
        name = 'a"} 1\n'
        code = f"open('/proc/self/comm', 'w').write({name!r}); import os; os.kill(os.getpid(), 19)"
        pid = self.start(sys.executable, "-c", code, LD_PRELOAD=str(LIBRARY)).pid
        for line in look("stat", "--prometheus", pid).stdout.splitlines():
            self.assertTrue(line.startswith("#") or self.LINE.fullmatch(line), line)
        self.assertEqual(figures(pid)["program"], name.split("\n")[0])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
