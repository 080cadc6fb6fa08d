# SPDX-License-Identifier: MIT
"""Tests of tools/gdb/freeway_gdb.py, as gdb loads it from beside the library ($FREEWAY_LIB).

$DEBUGGED and $DEBUGGED_STATIC are program.c with the shared and with the static library; $FREEWAY_TEST_GDB may name
another gdb. Calls are left out where this gdb cannot call functions at all (13 cannot on processors with AMX)."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SKIPPED = 77
GDB = os.environ.get("FREEWAY_TEST_GDB") or shutil.which("gdb")
PROGRAM, STATIC_PROGRAM = os.environ["DEBUGGED"], os.environ["DEBUGGED_STATIC"]
FOLDER = Path(os.environ["FREEWAY_LIB"]).resolve().parent
SCRIPT = Path(__file__).resolve().parents[3] / "tools/gdb/freeway_gdb.py"
PATH = f"{Path(os.environ['FREEWAY_COMMAND']).parent}:{os.environ['PATH']}"  # of a script that is no library's
RSEQ = os.environ.get("FREEWAY_RSEQ") != "0"
AT_CHECKPOINT = ("break checkpoint", "run", "finish")
WHOLE = "all blocks are whole"
INSTRUCTIONS = """\
python
import re
text = gdb.execute("disassemble malloc", False, True)
start, length = [int(gdb.parse_and_eval("*((unsigned long*)&freeway_section_malloc + %d)" % i)) for i in (1, 2)]
found = [int(a, 16) for a in re.findall(r"0x([0-9a-f]+) <", text)]
print("section:", *[a for a in found if start <= a < start + length])
end
"""


def gdb(*commands: str, program: str = PROGRAM, mode: str = "blocks", loaded: bool = True, source: str = "") -> str:
    """What gdb says to the commands; `loaded`: it may load the script beside the library."""
    first = ["-iex", f"add-auto-load-safe-path {FOLDER}"] if loaded else ["-iex", "set auto-load python-scripts off"]
    words = [str(GDB), "-nx", "-batch", *first, "-ex", "set pagination off", "-ex", "set debuginfod enabled off"]
    if source:
        words += ["-x", source]
    words += [word for command in commands for word in ("-ex", command)]
    if "-p" not in mode:
        words += ["--args", program, mode]
    else:
        words += mode.split()
    # In a session of its own: gdb and what it runs take the terminal from each other.
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"PATH": PATH},
    )
    return done.stdout + done.stderr


def can_call() -> bool:
    return "= 7" in gdb(*AT_CHECKPOINT, "print take()", mode="calls")


class Printing(unittest.TestCase):
    """`freeway heap` and `freeway block` tell the truth."""

    def check(self, said: str) -> None:
        counted = re.search(r"^(\d+) small blocks$", said, re.MULTILINE)
        told = re.search(r"^  live +[\d.]+ \w+ +in (\d+) blocks\b", said, re.MULTILINE)
        assert told is not None, said
        if counted is not None:
            self.assertEqual(int(told[1]), int(counted[1]) + 2, said)
        self.assertRegex(said, r"(?m)^  mapped +[\d.]+ MiB +300.0 MiB of it huge blocks;")
        self.assertRegex(said, r"(?m)^ *1024 +\d+ +\d+ +2500 +\d+ +\d+ ")
        for line in (
            r"the beginning of a live small block of 128 bytes at 0x\w+",
            r"99 bytes inside a live small block of 128 bytes at 0x\w+",
            r"the beginning of a free small block of 256 bytes at 0x\w+: in a magazine: .*",
            r"the beginning of a free small block of 1024 bytes at 0x\w+.*",
            r"the beginning of a live large block of 327680 bytes at 0x\w+",
            r"200000 bytes inside a live large block of 327680 bytes at 0x\w+",
            r"the beginning of a live large block of 314572800 bytes at 0x\w+: a mapping of its own",
            r"314572799 bytes inside a live large block of 314572800 bytes at 0x\w+: a mapping of its own",
        ):
            self.assertRegex(said, rf"(?m)^freeway: 0x\w+ is {line}$")
        self.assertEqual(len(re.findall(r"(?m)^freeway: 0x\w+ is not Freeway's$", said)), 3, said)

    commands = (
        "freeway heap",
        *(
            f"freeway block {expression}"
            for expression in (
                "live",
                "(char*)live + 99",
                "cached",
                "free_block",
                "large",
                "(char*)large + 200000",
                "huge",
                "(char*)huge + 314572799",
                "(char*)huge + 314572800",
                "$sp",
                "main",
            )
        ),
    )

    def test_of_a_process(self) -> None:
        self.check(gdb(*AT_CHECKPOINT, *self.commands))

    def test_of_guarded_blocks(self) -> None:
        said = gdb(
            "set environment FREEWAY_GUARD 0,large",
            *AT_CHECKPOINT,
            "freeway block (char*)large + 9",
            "freeway block (char*)large + 327679",
        )
        block = rf"a live large block of {327680 - resource.getpagesize()} bytes at 0x\w+"
        self.assertRegex(said, rf"(?m)^freeway: 0x\w+ is 9 bytes inside {block}$")
        self.assertRegex(said, rf"(?m)^freeway: 0x\w+ is \d+ bytes past the end of {block}: on the guard page")

    def test_of_a_core_file(self) -> None:
        if not Path("/proc/sys/kernel/core_pattern").read_text().startswith("core"):
            self.skipTest("the kernel does not leave core files in the program's folder")
        limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
            self.skipTest("core files are limited here")
        with tempfile.TemporaryDirectory() as folder:
            died = subprocess.run(
                [PROGRAM, "dies"],
                cwd=folder,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, limits),
                capture_output=True,
                check=False,
                timeout=60,
            )
            self.assertEqual(died.returncode, -signal.SIGABRT, died.stderr)
            (core,) = Path(folder).glob("core*")
            self.check(gdb(f"core-file {core}", *self.commands))

    def test_of_a_statically_linked_program(self) -> None:
        self.check(gdb(f"source {SCRIPT}", *AT_CHECKPOINT, *self.commands, program=STATIC_PROGRAM))

    def test_before_the_program_runs_there_is_no_heap(self) -> None:
        self.assertIn("there is no process", gdb(f"source {SCRIPT}", "freeway heap", program="/bin/true"))


@unittest.skipUnless(RSEQ, "sections are not in use")
class Calls(unittest.TestCase):
    """A call in a thread that stands in a section."""

    def setUp(self) -> None:
        if not can_call():
            self.skipTest("this gdb cannot call functions here")

    def instructions(self) -> list[str]:
        with tempfile.NamedTemporaryFile("w", suffix=".gdb") as file:
            file.write(INSTRUCTIONS)
            file.flush()
            said = gdb(*AT_CHECKPOINT, f"source {file.name}", mode="calls")
        found = re.search(r"^section: (.*)$", said, re.MULTILINE)
        assert found is not None, said
        return found[1].split()

    def outcome(self, address: str, loaded: bool) -> str:
        said = gdb(
            *AT_CHECKPOINT, f"tbreak *{address}", "continue", "print take()", "continue", mode="calls", loaded=loaded
        )
        self.assertIn("= 7", said)
        return said

    def test_in_malloc_s_section_damages_nothing(self) -> None:
        addresses = self.instructions()
        self.assertGreater(len(addresses), 5)
        for address in {*addresses[::4], addresses[-1]}:  # at every instruction: inferior_call_test.cc
            self.assertIn(WHOLE, self.outcome(address, True))

    def test_without_the_script_damages_the_heap(self) -> None:
        addresses = self.instructions()
        self.assertTrue(any(WHOLE not in self.outcome(address, False) for address in reversed(addresses)))

    def test_in_threads_of_one_cpu_damage_nothing(self) -> None:
        calls = [line for i in range(12) for line in (f"thread {2 + i % 4}", "print take_and_wait()")]
        program = subprocess.Popen([PROGRAM, "threads"], stdout=subprocess.PIPE, text=True)
        try:
            assert program.stdout is not None
            self.assertEqual(program.stdout.readline(), "ready\n")
            for _ in range(4):
                said = gdb(*calls, mode=f"-p {program.pid}")
                self.assertIsNone(program.poll(), said)
                self.assertIn("= ", said)
            gdb("set var enough = 1", mode=f"-p {program.pid}")
            out, _ = program.communicate(timeout=60)
        finally:
            program.kill()
        self.assertEqual((program.returncode, out), (0, f"{WHOLE}\n"))


if __name__ == "__main__":
    if GDB is None:
        print("gdb is not installed")
        sys.exit(SKIPPED)
    sys.exit(unittest.main(verbosity=2))
