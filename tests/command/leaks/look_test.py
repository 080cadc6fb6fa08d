# SPDX-License-Identifier: MIT
"""Tests of `freeway leaks PID|CORE`: what it finds in a process that goes on as it was, or has left a core file; and
what cannot be looked at."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from damaged_core import damages, displaced_segments
from leaking import CASES, COMMAND, REFUSED, STATIC, VARIABLES, WRONG_VALUE, Leaking, Verdict, command, verdicts


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def tracer_of(pid: int) -> int:
    return int(re.search(r"TracerPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())[1])  # type: ignore[index]


class Look(Leaking):
    def found(self, target: object, *arguments: object, status: int = 0) -> Verdict:
        (verdict,) = verdicts(command("leaks", target, *arguments, status=status).stdout)
        return verdict

    def waiting(self, case: str, program: str = CASES, **variables: str) -> subprocess.Popen[str]:
        return self.start(program, case, **({"FREEWAY_PROFILE": "1,blocks=1m,copy=0"} | variables))

    def core(self, pid: int) -> Path:
        if shutil.which("gcore") is None:
            self.skipTest("gdb, which has gcore, is not installed")
        subprocess.run(["gcore", "-o", f"{self.cores}/core", str(pid)], capture_output=True, timeout=60, check=True)
        return self.cores / f"core.{pid}"

    def check_list(self, verdict: Verdict) -> None:
        self.assertEqual((verdict.direct, verdict.indirect, verdict.bytes), (1, 9, "160 B"))

    def test_of_a_process_which_goes_on(self) -> None:
        for program in (CASES, STATIC):
            process = self.waiting("wait_with_list", program)
            for _ in range(3):
                found = self.found(process.pid)
                self.check_list(found)
                self.assertEqual(found.pid, process.pid)
            self.assertEqual(tracer_of(process.pid), 0)
            self.assertIn(state_of(process.pid), "SR")
            process.terminate()
            self.assertEqual(process.wait(60), -signal.SIGTERM)

    def test_of_one_that_was_stopped_and_stays_so(self) -> None:
        process = self.waiting("wait_with_list")
        process.send_signal(signal.SIGSTOP)
        while state_of(process.pid) != "T":
            time.sleep(0.005)
        self.check_list(self.found(process.pid))
        self.assertEqual(state_of(process.pid), "T")

    def test_a_register_counts(self) -> None:
        process = self.waiting("wait_with_register")
        for target in (process.pid, self.core(process.pid)):
            found = self.found(target)
            self.assertEqual((found.blocks, found.bytes), (1, "200 B"), "the other one is in a register")

    def test_many_blocks(self) -> None:
        process = self.waiting("wait_with_many")
        self.assertEqual(self.found(process.pid).direct, 20000)

    def test_of_a_core_file(self) -> None:
        for program in (CASES, STATIC):
            for variables in ({}, {"FREEWAY_RSEQ": "0"}, {"FREEWAY_HARDEN": "1"}):
                process = self.waiting("wait_with_list", program, **variables)
                core = self.core(process.pid)
                self.check_list(self.found(core))
                process.kill()
                process.wait()
                self.check_list(self.found(core, "-o", self.folder / "leaks.heap"))
                text = (self.folder / "leaks.heap").read_text()
                self.assertIn(f"# pid={process.pid} ", text)
                self.assertRegex(text, r"MAPPED_LIBRARIES:\n[0-9a-f]+-[0-9a-f]+ r")

    def test_of_one_that_the_kernel_wrote(self) -> None:
        with tempfile.TemporaryDirectory(prefix="freeway-leaks-core-", dir=os.environ["FREEWAY_BUILD_DIR"]) as folder:
            process = subprocess.Popen(
                ["prlimit", "--core=unlimited:unlimited", CASES, "wait_with_list"],
                env=VARIABLES | {"LD_PRELOAD": os.environ["FREEWAY_LIB"], "FREEWAY_PROFILE": "1"},
                cwd=folder, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGABRT)
            process.communicate(timeout=60)
            cores = list(Path(folder).glob("core*"))
            if not cores:
                self.skipTest(f"core files go elsewhere: {Path('/proc/sys/kernel/core_pattern').read_text()}")
            self.check_list(self.found(cores[0]))

    def test_statuses(self) -> None:
        process = self.waiting("wait_with_list")
        self.found(process.pid, "--status", 9, status=9)
        self.found(process.pid, "--status=9", status=9)
        for wrong in ("0", "256", "x", ""):
            command("leaks", process.pid, "--status", wrong, status=WRONG_VALUE)

    def test_wrong_usage(self) -> None:
        for arguments in ((), ("1", "2"), ("--xml", "1"), ("1", "-o"), ("1", "--status")):
            command("leaks", *arguments, status=WRONG_VALUE)

    def test_the_profile_that_cannot_be_written(self) -> None:
        process = self.waiting("wait_with_list")
        done = command("leaks", process.pid, "-o", "/no/such/folder/file", status=REFUSED)
        self.assertIn("cannot be written: No such file", done.stderr)

    def test_signals_that_come_meanwhile_arrive(self) -> None:
        code = """if True:
            import signal, sys, time
            count = 0
            def note(*_):
                global count
                count += 1
            signal.signal(signal.SIGUSR1, note)
            print("ready", flush=True)
            while sys.stdin.readable() and not sys.stdin.readline(): pass
            print(count, flush=True)"""
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=VARIABLES | {"LD_PRELOAD": os.environ["FREEWAY_LIB"], "FREEWAY_PROFILE": "64k"},
        )  # fmt: skip
        self.addCleanup(process.kill)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "ready\n")
        sent = 0
        for _ in range(10):
            looker = subprocess.Popen([COMMAND, "leaks", str(process.pid)], stdout=subprocess.DEVNULL, env=VARIABLES)
            while looker.poll() is None:
                process.send_signal(signal.SIGUSR1)
                sent += 1
                time.sleep(0.001)
            self.assertEqual(looker.returncode, 0)
            time.sleep(0.05)
        out, _ = process.communicate("end\n", timeout=60)
        self.assertTrue(10 <= int(out) <= sent, (out, sent))  # those that come while one is pending are one

    def test_when_it_is_killed_the_process_goes_on(self) -> None:
        process = self.waiting("wait_with_many")
        chance = random.Random(1)
        for _ in range(20):
            looker = subprocess.Popen([COMMAND, "leaks", str(process.pid)], stdout=subprocess.DEVNULL, env=VARIABLES)
            time.sleep(chance.random() * 0.08)
            looker.kill()
            looker.wait()
            deadline = time.monotonic() + 60
            while tracer_of(process.pid) != 0 or state_of(process.pid) not in "SR":
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.002)
        self.assertEqual(self.found(process.pid).direct, 20000)


class Refused(Leaking):
    def refused(self, status: int, words: str, *arguments: object) -> None:
        done = command("leaks", *arguments, status=status)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_who_is_no_process_or_has_ended(self) -> None:
        self.refused(REFUSED, "there is no process", 2**22 + 1)
        self.refused(REFUSED, "no process has the number", 2**40)
        self.refused(REFUSED, "neither the number of a process nor a core file", "/no/such/file")
        ended = subprocess.Popen(["true"])
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        self.refused(REFUSED, "has ended", ended.pid)
        ended.wait()

    def test_who_has_no_profile(self) -> None:
        process = self.start(CASES, "wait_with_list")
        self.refused(REFUSED, "has no heap profile", process.pid)

    def test_who_is_not_under_freeway(self) -> None:
        process = self.start(CASES, "wait_with_list", LD_PRELOAD="")
        self.refused(REFUSED, "does not run under Freeway", process.pid)
        self.assertEqual(tracer_of(process.pid), 0)

    def test_who_is_traced_already(self) -> None:
        process = self.start(CASES, "wait_with_list", FREEWAY_PROFILE="1")
        if shutil.which("gdb") is None:
            self.skipTest("gdb is not installed")
        gdb = subprocess.Popen(
            ["gdb", "-q", "-batch", "-p", str(process.pid), "-ex", "shell sleep 60"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            while tracer_of(process.pid) == 0:
                time.sleep(0.01)
            self.refused(REFUSED, f"is traced by process {tracer_of(process.pid)} (a debugger?)", process.pid)
        finally:
            os.killpg(gdb.pid, signal.SIGKILL)
            gdb.wait()

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_who_is_somebody_elses(self) -> None:
        process = self.start(CASES, "wait_with_list", FREEWAY_PROFILE="1")
        self.folder.chmod(0o755)
        copy = self.folder / "freeway"
        shutil.copy(COMMAND, copy)
        copy.chmod(0o755)
        done = subprocess.run(
            [copy, "leaks", str(process.pid)], env=VARIABLES, user=65534, group=65534, extra_groups=[],
            capture_output=True, text=True, check=False, cwd="/",
        )  # fmt: skip
        self.assertEqual(done.returncode, REFUSED)
        self.assertIn("may not be looked at: try it as root (sudo)", done.stderr)

    def test_garbage_ends_in_no_crash_and_no_endless_loop(self) -> None:
        if shutil.which("gcore") is None:
            self.skipTest("gdb, which has gcore, is not installed")
        seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
        print(f"SEED={seed}")
        path = self.core_of_a_list()
        statuses = {self.status_of(path, turn) for turn in damages(path, random.Random(seed), 60)}
        self.assertLessEqual({0, REFUSED}, statuses)

    def test_segments_at_the_end_of_the_address_space(self) -> None:
        path = self.core_of_a_list()
        for change in displaced_segments(path):
            self.status_of(path, change)

    def core_of_a_list(self) -> Path:
        if shutil.which("gcore") is None:
            self.skipTest("gdb, which has gcore, is not installed")
        process = self.start(CASES, "wait_with_list", FREEWAY_PROFILE="1")
        subprocess.run(
            ["gcore", "-o", f"{self.cores}/core", str(process.pid)], capture_output=True, timeout=60, check=True
        )
        return self.cores / f"core.{process.pid}"

    def status_of(self, path: Path, change: int) -> int:
        done = subprocess.run([COMMAND, "leaks", path], env=VARIABLES, capture_output=True, timeout=60, check=False)
        self.assertIn(done.returncode, (0, REFUSED), (change, done.stderr))
        return done.returncode


if __name__ == "__main__":
    unittest.main(verbosity=2)
