# SPDX-License-Identifier: MIT
"""Tests of what cannot be looked into, or not wholly: it is said why, with advice; damaged heaps end in no crash."""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from damaged_core import MAGIC, damages
from looking import COMMAND, LIBRARY, REFUSED, VARIABLES, WRONG_USAGE, Looking, figures, look

MICHAEL = os.environ["MICHAEL"]
VERSION_AT = 24  # in freeway_debug_t


class Refused(Looking):
    def refused(self, status: int, words: str, *arguments: object) -> None:
        for subcommand in ("stat", "classes"):
            done = look(subcommand, *arguments, status=status)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1)

    def test_wrong_usage(self) -> None:
        for arguments in ((), ("1", "2"), ("--xml", "1"), ("--json=1", "1")):
            look("stat", *arguments, status=WRONG_USAGE)
        look("stat", "--json", "--prometheus", "1", status=WRONG_USAGE)
        for arguments in ((), ("1",), ("1", "x"), ("1", "-1"), ("1", ""), ("1", "0x"), ("1", "0d"), ("1", "1" * 20)):
            look("blocks", *arguments, status=WRONG_USAGE)

    def test_who_is_no_process_or_has_ended(self) -> None:
        self.refused(REFUSED, "there is no process", 2**22 + 1)
        self.refused(REFUSED, "no process has the number", 2**40)
        self.refused(REFUSED, "no process has the number", 0)
        ended = subprocess.Popen(["true"])
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        self.refused(REFUSED, "it has ended", ended.pid)
        ended.wait()

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_who_is_somebody_elses(self) -> None:
        pid, _ = self.known()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            copy = Path(folder) / "freeway"
            copy.write_bytes(Path(COMMAND).read_bytes())
            copy.chmod(0o755)
            done = subprocess.run(
                [copy, "stat", str(pid)], env=VARIABLES, user=65534, group=65534, extra_groups=[], capture_output=True,
                text=True, check=False, cwd="/",
            )  # fmt: skip
        self.assertEqual(done.returncode, REFUSED)
        self.assertIn("may not be looked at: try it as root (sudo)", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give up what root may do")
    def test_root_without_the_right_is_told_so(self) -> None:
        pid, _ = self.known()
        code = (
            "import ctypes, os, sys; PR_CAPBSET_DROP, CAP_SYS_PTRACE = 24, 19; "
            "ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
        )
        for command in ("stat", "leaks", "trim"):
            done = subprocess.run(
                [sys.executable, "-c", code, COMMAND, command, str(pid)],
                env=VARIABLES, capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, REFUSED)
            self.assertIn("even by root: this container lacks the capability SYS_PTRACE", done.stderr)

    def test_root_of_an_inner_user_namespace_is_not_sent_to_root(self) -> None:
        inside = ["unshare", "--user", "--map-root-user"]
        if shutil.which("unshare") is None or subprocess.run([*inside, "true"], check=False).returncode != 0:
            self.skipTest("no user namespace can be made here")
        pid, _ = self.known()
        done = subprocess.run(
            [*inside, COMMAND, "stat", str(pid)], env=VARIABLES, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, REFUSED)
        self.assertIn("even by root: it belongs to an outer user namespace", done.stderr)
        self.assertNotIn("sudo", done.stderr)

    def test_who_is_not_under_freeway(self) -> None:
        process = self.start("/bin/sh", "-c", "kill -STOP $$")
        self.refused(REFUSED, "does not run under Freeway (`freeway run", process.pid)

    def test_a_copy_of_the_library_that_is_merely_mapped_is_no_heap(self) -> None:
        code = """if True:
            import mmap, os, sys
            with open(sys.argv[1], "rb") as file:
                copies = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE) for _ in range(9)]
            os.kill(os.getpid(), 19)"""
        path = str(LIBRARY)  # its link, if the folder has a blank
        process = self.start(sys.executable, "-c", code, path, LD_PRELOAD=path, PYTHONMALLOC="malloc")
        self.assertGreater(figures(process.pid)["live"], 1 << 20)
        process = self.start(sys.executable, "-c", code, path)
        self.refused(REFUSED, "which does not say where its heap is", process.pid)

    def test_who_is_under_another_engine(self) -> None:
        process = self.start("/bin/sh", "-c", "kill -STOP $$", LD_PRELOAD=MICHAEL)
        self.refused(REFUSED, "is under Freeway, but its engine is michael, which cannot be looked into", process.pid)

    def test_what_is_no_core_file(self) -> None:
        for path, words in (
            ("/no/such/file", "neither the number of a process nor a core file"),
            ("/dev/null", "neither the number"),
            ("/", "neither the number"),
            (__file__, "is no core file"),
            (COMMAND, "but no core file"),
        ):
            self.refused(REFUSED, words, path)


class Cores(Looking):
    def test_another_version_is_refused(self) -> None:
        pid, _ = self.known()
        path = self.core(pid)
        with path.open("r+b") as file:
            content = file.read()
            at = content.index(MAGIC)
            self.assertEqual(struct.unpack_from("<I", content, at + VERSION_AT), (6,))
            file.seek(at + VERSION_AT)
            file.write(struct.pack("<I", 77))
        for subcommand in ("stat", "classes"):
            stderr = look(subcommand, path, status=REFUSED).stderr
            self.assertRegex(
                stderr, r"laid out by version 77; this command, of Freeway \d+\.\d+\.\d+, knows version 6: use the one"
            )

    def test_without_private_memory_it_says_how_to_have_it(self) -> None:
        pid, _ = self.known()
        Path(f"/proc/{pid}/coredump_filter").write_text("0x30")
        self.assertIn("coredump_filter", look("stat", self.core(pid), status=REFUSED).stderr)

    def test_what_is_truncated_says_so(self) -> None:
        pid, said = self.known()
        path = self.core(pid)
        whole = path.stat().st_size
        self.assertEqual(look("stat", path).stderr, "")
        refusals = 0
        # gcore writes the notes behind the memory: without them everything is there but the process's number and name.
        for length in (self.behind_memory(path), *(whole * part // 20 for part in range(19, 0, -1)), 1):
            os.truncate(path, length)
            done = subprocess.run([COMMAND, "stat", "--json", path], capture_output=True, text=True, check=False)
            self.assertIn("truncated" if length > 1 else "no core file", done.stderr)
            if done.returncode == 0:
                self.assertIn(f'"live": {said["live"]},', done.stdout)
                self.assertEqual(refusals, 0)  # what is missing does not come back
            else:
                self.assertEqual(done.returncode, REFUSED)
                refusals += 1
        self.assertTrue(0 < refusals < 21, refusals)

    @staticmethod
    def behind_memory(path: Path) -> int:
        """Where the last segment that was memory ends in a core file."""
        content = path.read_bytes()
        (table,), (count,) = struct.unpack_from("<Q", content, 32), struct.unpack_from("<H", content, 56)
        ends = []
        for i in range(count):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, table + 56 * i)
            ends += [offset + length] if kind == 1 else []
        return max(ends)

    def test_a_descriptor_of_no_class_that_there_is_counts_for_nothing(self) -> None:
        pid, said = self.known()
        path = self.core(pid)
        content = path.read_bytes()
        span = struct.pack("<Q", said["addresses"][0] & ~0xFFFF)
        found = [
            m.start() for m in re.finditer(re.escape(span), content) if content[m.start() + 12 :][:4] == b"\x08\0\0\0"
        ]
        # span, link, class: src/superblock/descriptor.h; the first blocks of 80 bytes are of class 8, src/cache/loans.h
        self.assertEqual(len(found), 1)
        with path.open("r+b") as file:
            for wrong in (46, 63, 64, 200, 0xFFFFFFFF):
                file.seek(found[0] + 12)
                file.write(struct.pack("<I", wrong))
                file.flush()
                self.assertEqual(figures(path)["superblocks"], said["superblocks"] - 1)
                self.assertIn("in hand", look("blocks", path, f"{said['addresses'][0]:#x}").stdout)

    def test_garbage_ends_in_no_crash_and_no_endless_loop(self) -> None:
        seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
        print(f"SEED={seed}")
        chance = random.Random(seed)
        pid, said = self.known()
        path = self.core(pid)
        statuses = set()
        addresses = [f"{a:#x}" for a in said["addresses"]]
        for turn in damages(path, chance, 50):
            for command in (["stat"], ["classes", "--json"], ["blocks"]):
                argv = [COMMAND, *command, path, *(addresses if command == ["blocks"] else [])]
                done = subprocess.run(argv, capture_output=True, timeout=50, check=False)
                self.assertIn(done.returncode, (0, REFUSED), (turn, command, done.stderr))
                statuses.add(done.returncode)
        self.assertLessEqual({0, REFUSED}, statuses)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
