# SPDX-License-Identifier: MIT
"""What a report of a bad pointer says of its caller: file and place as addr2line takes them, thread and process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

LIBRARY = os.environ["FREEWAY_LIB"]
PROGRAMS = [Path(os.environ["MOVED"]), Path(os.environ["FIXED"])]
REPORT = re.compile(
    r"freeway: free of a misaligned pointer 0x[0-9a-f]+ by (0x[0-9a-f]+)(?: \((/[^()]+?)(?:\+(0x[0-9a-f]+))?\))?"
    r" in thread (\d+) of (\S+) \((\d+)\)"
)


def run(program: Path, case: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FREEWAY_")}
    return subprocess.run(
        [program, case], env=environment | {"LD_PRELOAD": LIBRARY} | variables, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


class Reports(unittest.TestCase):
    def report(self, program: Path, case: str) -> tuple[str, ...]:
        """The groups of the one report; thread and process are those that the program has named."""
        done = run(program, case, FREEWAY_ON_ERROR="report")
        self.assertEqual(done.returncode, 0, done.stderr)
        match = REPORT.fullmatch(done.stderr.rstrip("\n"))
        self.assertIsNotNone(match, done.stderr)
        assert match is not None
        self.assertEqual([match[4], match[6]], done.stdout.split())
        self.assertEqual(match[5], program.name)
        return match.groups()

    def function_at(self, file: str, address: str) -> str:
        """In which the call is that returns to this address of the file."""
        argv = [os.environ["ADDR2LINE"], "-f", "-e", file, hex(int(address, 16) - 1)]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[0]

    def test_addr2line_finds_the_function_wherever_it_is_called(self) -> None:
        for program in PROGRAMS:
            for case in ("main", "thread", "fork", "handler"):
                with self.subTest(program=program.name, case=case):
                    address, file, offset, *_ = self.report(program, case)
                    self.assertEqual(file, str(program))
                    self.assertEqual(offset is None, program == PROGRAMS[1])
                    self.assertEqual(self.function_at(file, offset or address), "wrong")

    def test_in_a_library(self) -> None:
        for program in PROGRAMS:
            _, file, offset, *_ = self.report(program, "library")
            self.assertEqual(file, os.environ["LIBRARY"])
            self.assertEqual(self.function_at(file, offset), "wrong_in_library")

    def test_where_no_file_can_be_opened_the_address_is_all(self) -> None:
        for program in PROGRAMS:
            self.assertIsNone(self.report(program, "no files")[1])

    def test_by_default_the_program_ends_after_the_same_line(self) -> None:
        for program in PROGRAMS:
            done = run(program, "main")
            self.assertEqual(done.returncode, -signal.SIGABRT)
            self.assertRegex(done.stderr, REPORT)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
