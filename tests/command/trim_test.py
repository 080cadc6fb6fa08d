# SPDX-License-Identifier: MIT
"""Tests of `freeway trim` and of `freeway run --pressure` ($FREEWAY_COMMAND with $FREEWAY_LIB), by helper threads.

$ORDER_TAKER looks like a process with a helper thread, and says what it is ordered; real helpers are tried, too."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

COMMAND = os.environ["FREEWAY_COMMAND"]
LIBRARY = os.environ["FREEWAY_LIB"]
ORDER_TAKER = os.environ["ORDER_TAKER"]
CANNOT, WRONG_USAGE = 1, 2
VARIABLES = {
    k: v for k, v in os.environ.items() if not k.startswith(("FREEWAY_", "MEMORY_PRESSURE_")) and k != "LD_PRELOAD"
} | {"FREEWAY_LIB": LIBRARY}
# Uses 64 MiB, says so, and waits to be told to end.
BUSY = "blocks = [bytearray(1000) for _ in range(64000)]; del blocks[1::2]; print('ready', flush=True); input()"


def trim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "trim", *map(str, arguments)], env=VARIABLES, capture_output=True, text=True, timeout=90, check=False
    )


class Started(unittest.TestCase):
    def start(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A process that has said that it is ready."""
        process = subprocess.Popen(
            arguments,
            env=VARIABLES | (env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertIn("ready", self.line_of(process))
        return process

    def line_of(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline()

    def python(self, **options: str) -> subprocess.Popen[str]:
        variables = {"LD_PRELOAD": LIBRARY, "PYTHONMALLOC": "malloc", **options}
        return self.start(sys.executable, "-c", BUSY, env=variables)


class Trim(Started):
    def test_what_is_ordered_is_what_was_asked_for(self) -> None:
        process = self.start(ORDER_TAKER, "9")
        for arguments, keep in (
            ([], 0),
            (["--keep", "300"], 300),
            (["--keep=64K"], 64 << 10),
            (["--keep", "2G"], 2 << 30),
        ):
            outcome = trim(process.pid, *arguments)
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            self.assertRegex(outcome.stdout, rf"^process {process.pid}: \d+\.\d MiB of \d+\.\d MiB went back\n$")
            self.assertEqual(self.line_of(process), f"order 1 {2 * keep + 1}\n")

    def test_a_real_process_gives_back(self) -> None:
        for rseq in ("0", "1"):
            process = self.python(FREEWAY_BACKGROUND="1", FREEWAY_RSEQ=rseq)
            outcome = trim(process.pid)
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            self.assertIn("went back", outcome.stdout)
            process.communicate("\n")
            self.assertEqual(process.returncode, 0)

    def test_a_stopped_process_does_it_when_it_goes_on(self) -> None:
        process = self.start(ORDER_TAKER, "1")
        os.kill(process.pid, signal.SIGSTOP)
        while "\nState:\tT" not in Path(f"/proc/{process.pid}/status").read_text():
            time.sleep(0.01)
        outcome = trim(process.pid)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertIn("when it goes on", outcome.stdout)
        os.kill(process.pid, signal.SIGCONT)
        self.assertEqual(self.line_of(process), "order 1 1\n")

    def test_who_is_not_under_freeway_is_told_so(self) -> None:
        plain = self.start("sh", "-c", "echo ready; read line")
        cases = [
            (trim(plain.pid), "does not run under Freeway"),
            (trim(2**22 + 1), "there is no process"),
        ]
        for outcome, why in cases:
            self.assertEqual(outcome.returncode, CANNOT, outcome.stdout)
            self.assertIn(why, outcome.stderr)

    def test_a_thread_of_that_name_that_takes_signals_is_left_alone(self) -> None:
        code = "open('/proc/self/comm', 'w').write('freeway'); print('ready', flush=True); input()"
        process = self.start(sys.executable, "-c", code)
        self.assertEqual(trim(process.pid).returncode, CANNOT)
        process.communicate("\n")
        self.assertEqual(process.returncode, 0)

    def test_wrong_usage(self) -> None:
        for arguments in ([], ["-5"], ["--keep", "1"], [1, 2]):
            self.assertEqual(trim(*arguments).returncode, WRONG_USAGE, arguments)
        for value in ("", "x", "1x", "-1", "1KK", "99999999999G"):
            self.assertEqual(trim(os.getpid(), "--keep", value).returncode, WRONG_USAGE, value)


class Pressure(Started):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="freeway-pressure-")
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "pressure"

    def watched(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        env = {"MEMORY_PRESSURE_WATCH": str(self.path), **variables}
        return self.start(COMMAND, "run", "--pressure", "--", *arguments, env=env)

    def test_each_time_memory_is_short_the_program_is_told(self) -> None:
        os.mkfifo(self.path)
        process = self.watched(ORDER_TAKER, "3")
        for _ in range(3):
            self.path.write_text("x")
            self.assertEqual(self.line_of(process), "order 1 1\n")
        self.assertEqual(process.wait(), 4)

    def test_so_are_its_descendants(self) -> None:
        os.mkfifo(self.path)
        process = self.watched("sh", "-c", f"sh -c '\"{ORDER_TAKER}\" 1; exit 5'; exit 6")
        self.path.write_text("x")
        self.assertEqual(self.line_of(process), "order 1 1\n")
        self.assertEqual(process.wait(), 6)

    def test_sockets_are_told_what_is_wanted(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.path))
            listener.listen()
            process = self.watched(ORDER_TAKER, "1", MEMORY_PRESSURE_WRITE=base64.b64encode(b"some\0 1 2").decode())
            connection, _ = listener.accept()
            with connection:
                self.assertEqual(connection.recv(100), b"some\0 1 2")
                connection.send(b"x")
                self.assertEqual(self.line_of(process), "order 1 1\n")
            self.assertEqual(process.wait(), 4)

    def test_signals_and_status_are_the_programs(self) -> None:
        os.mkfifo(self.path)
        process = self.watched("sh", "-c", "trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done")
        process.terminate()
        self.assertEqual(process.wait(), 42)

    def test_where_nothing_can_be_watched_the_program_runs_all_the_same(self) -> None:
        for path in ("/dev/null", "/no/such/file"):
            outcome = subprocess.run(
                [COMMAND, "run", "--pressure", "--", "sh", "-c", "echo $FREEWAY_BACKGROUND; exit 3"],
                env=VARIABLES | {"MEMORY_PRESSURE_WATCH": path},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual((outcome.returncode, outcome.stdout), (3, "1\n"))
            self.assertIn("cannot be watched", outcome.stderr)

    def test_without_a_protocol_the_kernel_is_asked(self) -> None:
        process = self.start(COMMAND, "run", "--pressure", "--", "sh", "-c", "echo ready; exit 3")
        self.assertEqual(process.wait(), 3)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
