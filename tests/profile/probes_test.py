# SPDX-License-Identifier: MIT
"""The probes of both libraries (src/profile/probes.h) are seen by a real tracer, gdb.

While it listens blocks are sampled without anybody having asked for a profile.

probes_test.py SHARED STATIC: probes_program.c, linked in two ways.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

SHARED, STATIC = sys.argv[1:3]
del sys.argv[1:3]
PROBES = ("otel_memory:alloc", "otel_memory:free", "freeway:sample_alloc", "freeway:sample_free")


def gdb(program: str, *commands: str, setting: str = "", argument: str = "") -> str:
    """What gdb says when it runs the program with these commands from the first call on."""
    environment = {**os.environ, "FREEWAY_PROFILE": setting} if setting else dict(os.environ)
    environment["DEBUGINFOD_URLS"] = ""
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
        script.write("\n".join(["set confirm off", "break after_first_call", f"run {argument}", *commands]) + "\n")
        script.flush()
        return subprocess.run(
            ["gdb", "-q", "-batch", "-nx", "-iex", "set auto-load no", "-x", script.name, program],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        ).stdout


def at_probe(name: str, format_: str, *values: str) -> str:
    """gdb's commands that print `values` each time the probe is passed."""
    printed = ", ".join([f'"{format_}\\n"', *values])
    return f"break -probe-stap {name}\ncommands\nsilent\nprintf {printed}\ncontinue\nend"


class Probes(unittest.TestCase):
    def test_both_libraries_have_them(self) -> None:
        for program in (SHARED, STATIC):
            listed = gdb(program, "info probes stap")
            for name in PROBES:
                provider, probe_name = name.split(":")
                self.assertRegex(listed, rf"{provider}\s+{probe_name}\s+0x", program)

    def test_a_tracer_sees_each_sample_of_a_profile(self) -> None:
        for program in (SHARED, STATIC):
            said = gdb(
                program,
                at_probe("otel_memory:alloc", "alloc %d %d", "$_probe_arg1", "$_probe_arg2"),
                at_probe("otel_memory:free", "free %#lx", "$_probe_arg0"),
                "continue",
                setting="1,dump=signal:WINCH",
                argument="few",
            )
            self.assertEqual(said.count("alloc 12345 12345"), 10, f"{program}\n{said}")
            self.assertGreaterEqual(len(re.findall(r"^free 0x", said, re.MULTILINE)), 10, program)

    def test_samples_are_taken_while_a_tracer_listens(self) -> None:
        for program in (SHARED, STATIC):
            said = gdb(
                program,
                at_probe("otel_memory:alloc", "alloc %d %d", "$_probe_arg1", "$_probe_arg2"),
                "continue",
            )
            weighted = [int(match) for match in re.findall(r"^alloc 2000 (\d+)$", said, re.MULTILINE)]
            self.assertGreater(len(weighted), 10, f"{program}\n{said}")
            for each in weighted:  # 2000 / (1 - e^(-2000 / 524288))
                self.assertEqual(each, 525289)
            # The program allocates 100,000 of them; chance is 7 % or so.
            self.assertLess(abs(sum(weighted) / 2e8 - 1), 0.5)


if __name__ == "__main__":
    unittest.main()
