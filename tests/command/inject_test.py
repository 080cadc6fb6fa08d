# SPDX-License-Identifier: MIT
"""Tests of `freeway trim` of processes that have no thread for it ($FREEWAY_COMMAND with $FREEWAY_LIB): one of
theirs is borrowed. $BORROWED is borrowed.c."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

COMMAND = os.environ["FREEWAY_COMMAND"]
LIBRARY = os.environ["FREEWAY_LIB"]
BORROWED = os.environ["BORROWED"]
CANNOT = 1
VARIABLES = {k: v for k, v in os.environ.items() if not k.startswith("FREEWAY_") and k != "LD_PRELOAD"}
WAITS = [
    "read", "nanosleep", "futex", "futex-timed", "poll", "poll-timed", "ppoll", "select", "epoll", "epoll-timed",
    "semop", "sigwait", "recv-timed", "alone",
]  # fmt: skip
SIGNALS = 50


def trim(pid: int, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    argv = [*before, COMMAND, "trim", str(pid)]
    return subprocess.run(argv, env=VARIABLES, capture_output=True, text=True, timeout=120, check=False)


def field(pid: int, name: str, thread: int | None = None) -> str:
    text = Path(f"/proc/{pid}/task/{thread or pid}/status").read_text()
    return text.partition(f"\n{name}:")[2].partition("\n")[0].strip()


@unittest.skipUnless(platform.machine() == "x86_64", "calls are made on x86-64 alone so far")
class Borrowed(unittest.TestCase):
    def start(self, way: str, **variables: str) -> subprocess.Popen[str]:
        """A process that does it."""
        process = subprocess.Popen(
            [BORROWED, way], env=VARIABLES | {"LD_PRELOAD": LIBRARY} | variables, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def waits(self, process: subprocess.Popen[str]) -> None:
        """Until its first thread sleeps."""
        while field(process.pid, "State")[0] != "S":
            self.assertIsNone(process.poll())
            time.sleep(0.005)

    def trimmed(self, pid: int) -> None:
        outcome = trim(pid)
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
        self.assertRegex(outcome.stdout, rf"^process {pid}: \d+\.\d MiB of \d+\.\d MiB went back\n$")

    def ends(self, process: subprocess.Popen[str], said: str = "ok\n") -> None:
        self.assertEqual(process.communicate("\n", timeout=60)[0], said)
        self.assertEqual(process.returncode, 0)

    def figures(self, pid: int, name: str) -> int:
        out = subprocess.run(
            [COMMAND, "stat", str(pid), "--json"], env=VARIABLES, capture_output=True, check=True
        ).stdout
        match = re.search(rf'"{name}": (\d+)', out.decode())
        assert match is not None
        return int(match[1])

    def test_what_is_not_needed_goes_back(self) -> None:
        for rseq in ("0", "1"):
            process = self.start("read", FREEWAY_RSEQ=rseq, FREEWAY_PURGE="never")
            self.waits(process)
            before = self.figures(process.pid, "resident")
            self.assertGreater(before, 20 << 20)
            self.trimmed(process.pid)
            self.assertLess(self.figures(process.pid, "resident"), 10 << 20)
            self.ends(process)

    def test_who_waits_sees_nothing_of_it(self) -> None:
        for way in WAITS:
            with self.subTest(way):
                process = self.start(way)
                for _ in range(3):
                    self.waits(process)
                    maps = Path(f"/proc/{process.pid}/maps").read_text()
                    mask = field(process.pid, "SigBlk")
                    self.trimmed(process.pid)
                    self.assertEqual(field(process.pid, "TracerPid"), "0")
                    self.waits(process)
                    self.assertEqual(field(process.pid, "SigBlk"), mask)
                    self.assertEqual(Path(f"/proc/{process.pid}/maps").read_text().count("\n"), maps.count("\n"))
                self.ends(process)

    def test_who_works_sees_nothing_of_it(self) -> None:
        for way, rseq, times in (("spin", "1", 100), ("spin", "0", 30), ("threads", "1", 20), ("registers", "1", 5)):
            with self.subTest(way, rseq=rseq):
                process = self.start(way, FREEWAY_RSEQ=rseq)
                for _ in range(times):
                    self.trimmed(process.pid)
                self.ends(process)

    def test_who_is_stopped_stays_so(self) -> None:
        process = self.start("read")
        process.send_signal(signal.SIGSTOP)
        while field(process.pid, "State")[0] != "T":
            time.sleep(0.005)
        for _ in range(3):
            self.trimmed(process.pid)
            while field(process.pid, "State")[0] != "T":  # the tracer's stop becomes the signal's again
                time.sleep(0.005)
        process.send_signal(signal.SIGCONT)
        self.ends(process)

    def test_signals_arrive_and_are_seen(self) -> None:
        process = self.start("signals")
        for _ in range(SIGNALS):
            self.waits(process)
            process.send_signal(signal.SIGUSR1)
            self.trimmed(process.pid)
        self.waits(process)
        said = process.communicate("\n", timeout=60)[0]
        handled = re.fullmatch(r"(\d+) handled, \d+ seen\n", said)
        assert handled is not None, said
        self.assertEqual(int(handled[1]), SIGNALS)

    def test_a_filter_that_kills_is_not_asked(self) -> None:
        process = self.start("filtered", FREEWAY_PURGE="never")
        self.waits(process)
        self.trimmed(process.pid)
        self.assertLess(self.figures(process.pid, "resident"), 10 << 20)
        self.ends(process)

    def test_another_thread_is_taken_where_the_first_one_cannot_be(self) -> None:
        process = self.start("vfork")
        self.trimmed(process.pid)
        self.ends(process)

    def test_why_not(self) -> None:
        strict = self.start("strict")
        while field(strict.pid, "Seccomp") != "1":
            time.sleep(0.005)
        outcome = trim(strict.pid)
        self.assertEqual(outcome.returncode, CANNOT)
        self.assertIn("it may only read, write and exit (seccomp)", outcome.stderr)
        self.assertEqual(strict.communicate("\n", timeout=60)[0], "")
        self.assertEqual(strict.returncode, 0)

        plain = subprocess.Popen([BORROWED, "read"], env=VARIABLES, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(plain.communicate)
        assert plain.stdout is not None
        self.assertEqual(plain.stdout.readline(), b"ready\n")
        outcome = trim(plain.pid)
        self.assertEqual(outcome.returncode, CANNOT)
        self.assertIn("does not run under Freeway", outcome.stderr)

        traced = self.start("read")
        tracer = subprocess.Popen(
            [sys.executable, "-c", TRACE, str(traced.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.addCleanup(tracer.communicate)
        assert tracer.stdout is not None
        self.assertEqual(tracer.stdout.readline(), b"0\n")
        outcome = trim(traced.pid)
        self.assertEqual(outcome.returncode, CANNOT)
        self.assertIn(f"is traced by process {tracer.pid} (a debugger?)", outcome.stderr)
        tracer.communicate()
        self.ends(traced)

    def test_a_thread_that_never_stops_is_let_go_before_the_next_is_tried(self) -> None:
        process = self.start("vforks")
        tasks = Path(f"/proc/{process.pid}/task")
        while [field(process.pid, "State", int(each.name))[0] for each in tasks.iterdir()] != ["D", "D"]:
            self.assertIsNone(process.poll())
            time.sleep(0.005)
        first, second = sorted(int(each.name) for each in tasks.iterdir())
        trimming = subprocess.Popen(
            [COMMAND, "trim", str(process.pid)], env=VARIABLES, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(trimming.communicate)
        seen = 0
        while trimming.poll() is None:
            seen += field(process.pid, "TracerPid", second) != "0" and field(process.pid, "TracerPid", first) == "0"
            time.sleep(0.01)
        self.assertGreater(seen, 10)
        assert trimming.stderr is not None
        said = trimming.stderr.read()
        self.assertEqual(trimming.returncode, CANNOT)
        self.assertEqual(said.count("does not stop"), 2, said)
        self.assertEqual(process.communicate("\n\n", timeout=60)[0], "ok\n")

    def test_a_frozen_process_is_not_waited_for(self) -> None:
        roots = [root for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified") if Path(root, "cgroup.procs").exists()]
        group = Path(roots[0] if roots else "/none", f"freeway-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            self.skipTest("no control group can be made here")
        self.addCleanup(group.rmdir)
        process = self.start("read")
        (group / "cgroup.procs").write_text(str(process.pid))
        self.waits(process)
        self.addCleanup(process.communicate)  # before the group goes
        self.addCleanup(process.kill)
        (group / "cgroup.freeze").write_text("1")
        while "frozen 1" not in (group / "cgroup.events").read_text():
            time.sleep(0.005)
        outcome = trim(process.pid)
        self.assertEqual(outcome.returncode, CANNOT)
        self.assertIn(f"process {process.pid} is frozen", outcome.stderr)
        # One that is frozen in the middle of it: here the command does not see that it is.
        hide = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
        outcome = trim(process.pid, before=("unshare", "-m", "sh", "-c", hide, "sh"))
        self.assertEqual(outcome.returncode, CANNOT)
        self.assertIn(f"thread {process.pid}: it does not go on", outcome.stderr)
        self.assertEqual(field(process.pid, "TracerPid"), "0")
        (group / "cgroup.freeze").write_text("0")
        self.ends(process)


TRACE = """if True:
    import ctypes, sys
    PTRACE_SEIZE = 0x4206
    print(ctypes.CDLL(None).ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None), flush=True)
    sys.stdin.read()
"""

if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
