# SPDX-License-Identifier: MIT
"""`freeway doctor PROGRAM`, and what `freeway run` says of programs with another malloc.

Programs are built here whose malloc comes from different places; each says itself, when it runs, where its malloc lies.
$STATIC_PROGRAM is statically linked."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

COMMAND = Path(os.environ["FREEWAY_COMMAND"])
LIBRARY = Path(os.environ["FREEWAY_LIB"])
STATIC_PROGRAM = os.environ["STATIC_PROGRAM"]
OK, UNWELL, WRONG_USAGE, NOT_PRELOADED = 0, 1, 2, 125
NAME_WIDTH = 14

SAYS_WHERE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  Dl_info info;
  char* (*volatile where)(unsigned long) = (char* (*)(unsigned long))malloc;
  return dladdr((void*)where, &info) && puts(info.dli_fname) < 0;
}
"""
# Serves everything from a row of bytes.
OWN_MALLOC = """
#include <stddef.h>
#include <string.h>
static char bytes[1 << 22];
static size_t used;
void* malloc(size_t n) { char* p = bytes + used; used += (n + 31) / 16 * 16; return used < sizeof(bytes) ? p : 0; }
void free(void* p) { (void)p; }
void* calloc(size_t n, size_t m) { return malloc(n * m); }
void* realloc(void* p, size_t n) { void* q = malloc(n); return p && q ? memmove(q, p, n) : q; }
"""
# Runs until its folder has a file `done`.
WAITS = """
#include <unistd.h>
int main(void) {
  while (access("done", F_OK) != 0) usleep(10000);
  return 0;
}
"""
PATIENCE_S = 300  # then it is not said at all
TEXT_OF_JEMALLOC = '\nconst char* malloc_message = "<jemalloc>: out of luck";\n'


def freeway(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command, in an environment without Freeway's variables but for the library's place."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("FREEWAY_") and k != "LD_PRELOAD"}
    env |= {"FREEWAY_LIB": str(LIBRARY), **variables}
    return subprocess.run([str(COMMAND), *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)


def facts(outcome: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What doctor's list says: value by name."""
    said = outcome.stdout.splitlines()
    lines = [line for line in said if line[NAME_WIDTH : NAME_WIDTH + 1] == " " and line[0] != " "]
    return {line[:NAME_WIDTH].rstrip(): line[NAME_WIDTH + 1 :] for line in lines}


class WhoseMalloc(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="freeway-whose-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def built(self, name: str, source: str, *options: str) -> Path:
        compiler = shutil.which("cc")
        assert compiler is not None
        path = self.folder / f"{name}.c"
        path.write_text(source)
        made = self.folder / name
        subprocess.run([compiler, "-fno-builtin", str(path), "-o", str(made), *options, "-ldl"], check=True)
        return made

    def needs(self, library: Path) -> list[str]:
        """Options for a program that needs the library, though it calls nothing in it."""
        return ["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{self.folder}"]

    def executable(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.write_text(content)
        path.chmod(0o755)
        return path

    def where(self, program: Path) -> Path:
        """Where the program's malloc is when it runs under Freeway."""
        return Path(freeway("run", "--", str(program)).stdout.strip()).resolve()

    def assert_takes(self, program: Path, alone: str) -> None:
        outcome = freeway("doctor", str(program))
        self.assertEqual(outcome.returncode, OK, outcome.stdout + outcome.stderr)
        self.assertRegex(facts(outcome)["malloc"], alone)
        self.assertEqual(facts(outcome)["with Freeway"], "Freeway's")
        self.assertIn(f"Freeway takes: freeway run -- {program}\n", outcome.stdout)

    def assert_does_not_take(self, program: Path, why: str) -> None:
        outcome = freeway("doctor", str(program))
        self.assertEqual(outcome.returncode, UNWELL, outcome.stdout + outcome.stderr)
        self.assertIn(f"Freeway does not take: {why}", outcome.stdout)
        required = freeway("run", "--require", "--", str(program))
        self.assertEqual((required.returncode, required.stdout), (NOT_PRELOADED, ""))
        self.assertTrue(required.stderr.startswith(f"freeway: {why}"), required.stderr)

    def test_of_the_c_library(self) -> None:
        program = self.built("plain", SAYS_WHERE)
        self.assert_takes(program, r"/libc\.so\.6 \(the C library\)$")
        self.assertEqual(self.where(program), LIBRARY.resolve())
        self.assertEqual(freeway("run", "--require", "--", str(program)).returncode, 0)

    def test_of_a_library(self) -> None:
        library = self.built("libother.so", OWN_MALLOC + TEXT_OF_JEMALLOC, "-shared", "-fPIC")
        program = self.built("linked", SAYS_WHERE, *self.needs(library))
        self.assert_takes(program, rf"^{library} \(jemalloc\)$")
        self.assertEqual(self.where(program), LIBRARY.resolve())
        advice = f"LD_PRELOAD=libfreeway-jemalloc.so.0 freeway run -- {program}\n"
        self.assertIn(advice, freeway("doctor", str(program)).stdout)
        self.assertNotIn("jemalloc", freeway("doctor", str(self.built("plain", SAYS_WHERE))).stdout)

    def test_built_into_the_program(self) -> None:
        program = self.built("builtin", SAYS_WHERE + OWN_MALLOC + TEXT_OF_JEMALLOC)
        why = f"{program} has jemalloc built in, which goes before what is preloaded"
        self.assert_does_not_take(program, why)
        self.assertEqual(self.where(program), program.resolve())
        self.assertIn(f"does not take: {why}", freeway("run", "--", str(program)).stderr)

    def test_of_no_known_kind(self) -> None:
        program = self.built("unknown", SAYS_WHERE + OWN_MALLOC)
        self.assert_does_not_take(program, f"{program} has a malloc built in")

    def test_for_a_library_alone_is_told_besides(self) -> None:
        source = OWN_MALLOC.replace("malloc(", "mine_malloc(").replace("free(", "mine_free(")
        source = source.replace("calloc(", "mine_calloc(").replace("realloc(", "mine_realloc(")
        library = self.built("libmine.so", source + TEXT_OF_JEMALLOC, "-shared", "-fPIC")
        program = self.built("beside", SAYS_WHERE, *self.needs(library))
        self.assert_takes(program, r"\(the C library\)$")
        self.assertEqual(facts(freeway("doctor", str(program)))["besides"], f"{library} (jemalloc)")

    def test_preloaded_before_freeway(self) -> None:
        library = self.built("libfirst.so", OWN_MALLOC, "-shared", "-fPIC")
        program = self.built("behind", SAYS_WHERE)
        outcome = freeway("run", "--require", "--", str(program), LD_PRELOAD=str(library))
        self.assertEqual(outcome.returncode, NOT_PRELOADED)
        self.assertIn(f"gets its malloc from {library}, which is loaded before Freeway", outcome.stderr)

    def test_static_program(self) -> None:
        self.assert_does_not_take(Path(STATIC_PROGRAM), f"{STATIC_PROGRAM} is statically linked")

    def test_go(self) -> None:
        source = 'const char* text = "Go buildinf:";\nint main(void) { return !text; }\n'
        program = self.built("static", source, "-static")
        outcome = freeway("doctor", str(program))
        self.assertEqual(outcome.returncode, UNWELL)
        self.assertIn(f"{program} is Go's, whose runtime allocates by itself", outcome.stdout)

    def test_script_is_judged_by_who_reads_it(self) -> None:
        program = self.built("builtin", SAYS_WHERE + OWN_MALLOC)
        for first_line in (f"#!{program}", f"#!/usr/bin/env {program}", f"#!/usr/bin/env -S A=1 {program} -x"):
            script = self.executable("script", first_line + "\n")
            self.assert_does_not_take(script, f"{program} has a malloc built in")
        self.assert_takes(self.executable("shell", "#!/bin/sh\ntrue\n"), r"\(the C library\)$")

    def told(self, script: str, lines: int) -> tuple[list[str], int]:
        """What `run --require` says while the script's processes wait for `lines` lines to be said, and its status."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("FREEWAY_") and k != "LD_PRELOAD"}
        command = [str(COMMAND), "run", "--require", "--", "sh", "-c", script]
        env |= {"FREEWAY_LIB": str(LIBRARY)}
        with subprocess.Popen(command, env=env, cwd=self.folder, stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            enough = threading.Timer(PATIENCE_S, self.end_waiting)
            enough.start()
            said = [line for _, line in zip(range(lines), running.stderr, strict=False)]
            enough.cancel()
            self.end_waiting()
            said += running.stderr.readlines()
        return [line.rstrip("\n") for line in said], running.returncode

    def end_waiting(self) -> None:
        (self.folder / "done").touch()

    def test_process_that_escapes_is_told_once_with_the_reason(self) -> None:
        static = self.built("static", WAITS, "-static")
        own = self.built("own", WAITS + OWN_MALLOC)
        plain = self.built("plain", WAITS)
        script = f"{static} & {own} & {own} & env -i {plain} & wait; exit 7"
        said, status = self.told(script, 3)
        self.assertEqual(status, 7, said)
        told = [line.split(" runs without Freeway: ")[1] for line in said]
        self.assertEqual(len(told), 3, said)
        for file, why in (
            (static, "is statically linked"),
            (own, "has a malloc built in"),
            (plain, "its environment has no LD_PRELOAD"),
        ):
            self.assertEqual([why in line for line in told if line.startswith(f"{file}: ")], [True], said)

    def test_process_with_other_rights_is_told(self) -> None:
        if os.getuid() != 0:
            self.skipTest("only root can make a setuid program of somebody else")
        program = self.built("setuid", WAITS)
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        self.folder.chmod(0o755)
        said, _ = self.told(f"{program} & wait", 1)
        self.assertIn("the loader ignores LD_PRELOAD", "".join(said))

    def test_with_other_options_status_and_report_are_the_program_s(self) -> None:
        outcome = freeway("run", "--require", "--stats", "--pressure", "--", "perl", "-e", "exit 5")
        self.assertEqual(outcome.returncode, 5, outcome.stderr)
        self.assertIn("freeway: what the heap did", outcome.stderr)

    def test_what_is_no_program(self) -> None:
        self.assertEqual(freeway("doctor", "no such program").returncode, UNWELL)
        for length in (1, 1000):
            text = self.executable("text", "no first line\n" * length)
            self.assertEqual(freeway("doctor", str(text)).returncode, UNWELL)
        self.assertEqual(freeway("doctor", "--option").returncode, WRONG_USAGE)
        self.assertEqual(freeway("doctor", "true", "arguments").returncode, WRONG_USAGE)

    def test_file_that_ends_early_is_no_trouble(self) -> None:
        whole = self.built("builtin", SAYS_WHERE + OWN_MALLOC).read_bytes()
        for length in (4, 5, 63, 64, 100, 700, len(whole) // 2, len(whole) - 100):
            short = self.folder / "short"
            short.write_bytes(whole[:length])
            short.chmod(0o755)
            self.assertIn(freeway("doctor", str(short)).returncode, (OK, UNWELL, WRONG_USAGE))


if __name__ == "__main__":
    unittest.main()
