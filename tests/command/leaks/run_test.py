# SPDX-License-Identifier: MIT
"""Tests of `freeway run --leaks`: exit statuses, profiles, samples, children, and what it does not go together with;
and of FREEWAY_PROFILE=...,dump=hold, which it is made of."""

from __future__ import annotations

import contextlib
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

from leaking import CASES, COMMAND, FRAMELESS, LIBRARY, OWN_FAILURE, VARIABLES, WRONG_VALUE, Leaking, command, verdicts

PROFILER = Path(COMMAND).parent / "freeway-profile"


class Run(Leaking):
    def test_the_exit_status_is_the_program_s_or_the_one_that_was_asked_for(self) -> None:
        for options, case, status in (
            ((), "lost", 0),
            (("--leaks-status", "77"), "lost", 77),
            (("--leaks-status=1",), "lost", 1),
            (("--leaks-status", "77"), "in_global", 0),
            (("--leaks-status", "77"), "failing", 3),
            (("--leaks-status", "77"), "killed", -signal.SIGTERM),
            (("--leaks-status", "77"), "child", 77),
            (("--leaks-status", "77"), "no_exit", OWN_FAILURE),
        ):
            with self.subTest(options=options, case=case):
                command("run", "--leaks", *options, "--", CASES, case, status=status)

    def test_who_was_not_looked_at_is_not_passed_over_in_silence(self) -> None:
        done = command("run", "--leaks", CASES, "no_exit")
        self.assertIn("no process was looked at for leaks", done.stderr)

    def test_a_program_is_looked_at_before_a_signal_ends_it(self) -> None:
        done = command("run", "--leaks", CASES, "killed", status=-signal.SIGTERM)
        self.assertRegex(done.stderr, r"^freeway: leaks_cases \(\d+\): ")

    def test_stacks_are_named(self) -> None:
        if not PROFILER.exists():
            self.skipTest("there is no `freeway profile` here")
        for program in (CASES, FRAMELESS):
            with self.subTest(program=program):
                text = command("run", "--leaks", program, "list_lost").stderr
                self.assertRegex(text, r"\n +160 B +100 % +10 +.* take \(cases\.c:\d+\)\n")
                order = [text.index(f" {name} (cases.c:") for name in ("take", "make_list", "list_lost", "main")]
                self.assertEqual(order, sorted(order))

    def test_stacks_are_told_by_file_and_offset_where_nobody_names_them(self) -> None:
        alone = shutil.copy(COMMAND, self.folder / "freeway")
        done = subprocess.run(
            [alone, "run", "--leaks", CASES, "lost"],
            env=VARIABLES,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        if "leaks of leaks_cases" in done.stderr:
            self.skipTest("`freeway profile` is installed")
        self.assertRegex(done.stderr, r"\n  100 bytes in 1 samples, allocated at leaks_cases\+0x[0-9a-f]+ ")

    def test_the_profile_has_what_leaked_and_nothing_else(self) -> None:
        command("run", "--leaks", "--leaks-dump", self.folder / "leaks", CASES, "list_lost_from_the_middle")
        (path,) = self.folder.iterdir()
        self.assertRegex(path.name, r"^leaks\.\d+\.heap$")
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        text = path.read_text()
        self.assertRegex(
            text, r"^heap profile: 6: 96 \[10: 160\] @ heap_v2/1\n# freeway-profile 1\n# pid=\d+ .* leaks=1 "
        )
        self.assertEqual(len(re.findall(r"^6: 96 \[10: 160\] @ 0x", text, re.MULTILINE)), 1)
        self.assertRegex(text, r"\n#@ age_ms=\d+ direct=1 indirect=5\n")
        self.assertIn("\nMAPPED_LIBRARIES:\n", text)
        self.assertIn("leaks_cases\n", text)
        if PROFILER.exists():
            collapsed = command("profile", "convert", path, "--format=collapsed").stdout
            self.assertRegex(collapsed, r";main;list_lost_from_the_middle;make_list;take 96\n$")
        before = path.read_text()
        command("run", "--leaks", "--leaks-dump", self.folder / "none", CASES, "in_global")
        self.assertEqual([p.read_text() for p in self.folder.iterdir()], [before], "nothing leaked: no file")

    def test_a_profile_that_cannot_be_written_is_a_failure(self) -> None:
        done = command("run", "--leaks", "--leaks-dump", self.folder / "no/folder/leaks", CASES, "lost")
        self.assertIn("cannot be written: No such file", done.stderr)
        command("run", "--leaks", "--leaks-dump", self.folder / "no/leaks", "--leaks-status=9", CASES, "lost", status=9)

    def test_of_samples_it_is_an_estimate(self) -> None:
        code = "import ctypes; c = ctypes.CDLL(None)\nfor _ in range(50000): c.malloc(1000)"
        done = command("run", "--leaks=16k", "--", sys.executable, "-S", "-c", code, env={"PYTHONMALLOC": "malloc"})
        found = re.search(
            r"leaked: ([\d.]+) MiB ± ([\d.]+) (K|M)iB in ([\d,]+) blocks, estimated from ([\d,]+) samples", done.stderr
        )
        assert found is not None, done.stderr
        deviation = float(found[2]) / (1024 if found[3] == "K" else 1)
        # 47.7 MiB in 50,000 blocks, of which one in 16.9 is sampled: 3000 ± 53 samples.
        self.assertAlmostEqual(float(found[1]), 50000 * 1000 / (1 << 20), delta=8 * deviation)
        self.assertTrue(2400 < int(found[5].replace(",", "")) < 3600, done.stderr)
        self.assertTrue(0.5 < deviation < 1.5, deviation)

    def test_children_are_looked_at_each_for_itself(self) -> None:
        done = command(
            "run",
            "--leaks",
            "--",
            "/bin/sh",
            "-c",
            f"'{CASES}' lost; '{CASES}' in_global; '{CASES}' list_lost; exit 5",
            status=5,
        )
        leaking = [(v.direct, v.indirect) for v in verdicts(done.stderr) if v.blocks]
        self.assertEqual(leaking, [(1, 0), (1, 9)])
        self.assertRegex(done.stderr, r"freeway: no leaks in [12] other process(es)?\n")

    def test_who_outlives_the_program_goes_on(self) -> None:
        script = f"(sleep 0.5; '{CASES}' lost; touch {self.folder}/done) >/dev/null 2>&1 & exit 0"
        command("run", "--leaks", "--", "/bin/sh", "-c", script)
        deadline = time.monotonic() + 60
        while not (self.folder / "done").exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_with_a_report_of_the_heap(self) -> None:
        done = command("run", "--leaks", "--stats", "--harden", "--leaks-status=7", CASES, "list_lost", status=7)
        self.assertEqual([(v.direct, v.indirect) for v in verdicts(done.stderr)], [(1, 9)])
        self.assertRegex(done.stderr, r"\n  live .* in \d+ blocks")

    def test_with_others_that_stay_beside_the_program(self) -> None:
        done = command("run", "--leaks", "--pressure", "--require", "--leaks-status=7", CASES, "child", status=7)
        self.assertEqual([v.direct for v in verdicts(done.stderr) if v.blocks], [1])

    def test_what_it_does_not_go_together_with(self) -> None:
        for options, words, status in (
            (("--leaks", "--engine", "michael"), "the engine michael has no heap profile", WRONG_VALUE),
            (("--leaks-status=3",), "are of --leaks", WRONG_VALUE),
            (("--leaks-dump=x",), "are of --leaks", WRONG_VALUE),
            (("--leaks", "--leaks-status=0"), "wants 1 to 255, not '0'", WRONG_VALUE),
            (("--leaks", "--leaks-status=256"), "wants 1 to 255", WRONG_VALUE),
            (("--leaks", "--leaks-status=x"), "wants 1 to 255", WRONG_VALUE),
            (("--leaks", "--leaks-dump="), "wants the beginning", WRONG_VALUE),
            (("--leaks=",), "one sample in how many bytes", WRONG_VALUE),
            (("--leaks=0",), "one sample in how many bytes", WRONG_VALUE),
            (("--leaks=many",), "one sample in how many bytes", WRONG_VALUE),
            (("--leaks=1,prefix=x",), "one sample in how many bytes", WRONG_VALUE),
        ):
            with self.subTest(options=options):
                done = command("run", *options, "--", CASES, "lost", status=status)
                self.assertIn(words, done.stderr)
                self.assertEqual(verdicts(done.stderr), [])
        done = command("run", "--leaks", CASES, "lost", env={"FREEWAY_PROFILE": "512k"}, status=OWN_FAILURE)
        self.assertIn("not together with --profile or FREEWAY_PROFILE", done.stderr)

    def test_a_folder_for_temporary_files_whose_name_is_too_long_or_has_commas(self) -> None:
        for name in ("a,b", "long" * 40):
            (self.folder / name).mkdir()
            done = command("run", "--leaks", CASES, "lost", env={"TMPDIR": str(self.folder / name)})
            self.assertEqual([v.direct for v in verdicts(done.stderr)], [1])
            self.assertEqual(list((self.folder / name).iterdir()), [])


class Hold(Leaking):
    """Who listens, as the command does."""

    def listen(self) -> tuple[socket.socket, str]:
        path = str(self.folder / "socket")
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen()
        listener.settimeout(60)
        return listener, path

    def test_it_waits_for_an_answer_or_the_end_of_the_connection(self) -> None:
        for answers in (True, False):
            with self.subTest(answers=answers):
                listener, path = self.listen()
                environment = VARIABLES | {"LD_PRELOAD": LIBRARY, "FREEWAY_PROFILE": f"1,dump=hold:{path}"}
                process = subprocess.Popen([CASES, "list_lost"], env=environment)
                connection, _ = listener.accept()
                self.assertEqual(int.from_bytes(connection.recv(8), sys.byteorder), process.pid)
                (found,) = verdicts(command("leaks", process.pid).stdout)
                self.assertEqual((found.direct, found.indirect), (1, 9))
                self.assertEqual(select.select([connection], [], [], 0.2)[0], [], "it holds the connection")
                self.assertIsNone(process.poll())
                if answers:
                    connection.send(b"1")
                    self.assertEqual(process.wait(60), 0)
                connection.close()
                self.assertEqual(process.wait(60), 0)
                listener.close()
                Path(path).unlink()
                self.assertEqual(list(self.folder.glob("*.heap")), [])

    def test_where_nobody_listens_it_goes_on(self) -> None:
        listener, path = self.listen()
        listener.close()
        for place in (path, "/no/such/socket", "/"):
            environment = VARIABLES | {"LD_PRELOAD": LIBRARY, "FREEWAY_PROFILE": f"1,dump=hold:{place}"}
            done = subprocess.run([CASES, "lost"], env=environment, capture_output=True, timeout=60, check=True)
            self.assertEqual(done.stderr, b"")

    def test_signals_do_not_end_the_wait(self) -> None:
        listener, path = self.listen()
        script = "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: None); sys.exit(4)"
        environment = VARIABLES | {"LD_PRELOAD": LIBRARY, "FREEWAY_PROFILE": f"512k,dump=hold:{path}"}
        process = subprocess.Popen([sys.executable, "-S", "-c", script], env=environment)
        connection, _ = listener.accept()
        for _ in range(20):
            process.send_signal(signal.SIGWINCH)
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGSTOP)
        os.kill(process.pid, signal.SIGCONT)
        self.assertEqual(select.select([connection], [], [], 0)[0], [connection], "its number")
        self.assertEqual(len(connection.recv(100)), 8)
        self.assertEqual(select.select([connection], [], [], 0.1)[0], [])
        connection.close()
        self.assertEqual(process.wait(60), 4)

    def test_when_the_program_is_killed_meanwhile_its_parent_hears_of_it(self) -> None:
        chance = random.Random(1)
        listing = self.folder / "pid"
        script = f"'{CASES}' long_list & echo $! > {listing}; wait $!; exit $?"
        statuses = set()
        for _ in range(20):
            listing.unlink(missing_ok=True)
            process = subprocess.Popen(
                [COMMAND, "run", "--leaks", "/bin/sh", "-c", script], env=VARIABLES, stderr=subprocess.DEVNULL
            )
            while not listing.exists() or not listing.read_text():
                time.sleep(0.001)
            time.sleep(chance.random() * 0.4)
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(listing.read_text()), signal.SIGKILL)
            statuses.add(process.wait(60))
        self.assertLessEqual(statuses, {0, 128 + signal.SIGKILL})
        self.assertIn(128 + signal.SIGKILL, statuses)

    def test_when_the_command_is_killed_the_program_goes_on(self) -> None:
        script = f"echo $$ > {self.folder}/pid; '{CASES}' in_global; echo done > {self.folder}/done"
        process = subprocess.Popen([COMMAND, "run", "--leaks", "/bin/sh", "-c", script], env=VARIABLES)
        while not (self.folder / "pid").exists():
            time.sleep(0.005)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 60
        while not (self.folder / "done").exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)


if __name__ == "__main__":
    unittest.main(verbosity=2)
