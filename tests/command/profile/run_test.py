# SPDX-License-Identifier: MIT
"""`freeway run --profile`: it says where the profile is, and what to type next; also where a signal ends the program.
And profiles of running processes ($PEAKING has most live in its middle)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from dumps import COMMAND, InAFolder

PEAKING = os.environ["PEAKING"]
NAME = Path(PEAKING).name
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("FREEWAY_PROFILE")}
OWN_FAILURE, WRONG_VALUE = 125, 2


class Running(InAFolder):
    def command(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [COMMAND, *words],
            env=ENVIRONMENT,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def waiting(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """A program that has said that it waits, the leader of a group of its own, as in a terminal."""
        process = subprocess.Popen(
            [*words], env=ENVIRONMENT | variables, cwd=self.folder, start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "waiting\n")
        return process

    def told(self, stderr: str) -> str:
        """What `freeway profile top` says of the profile, as the line of the run says to type it."""
        match = re.search(
            r"^freeway: heap profile written to (\S+); look: freeway (profile top \1)$", stderr, re.MULTILINE
        )
        assert match is not None, stderr
        self.assertRegex(match[1], rf"^{NAME}\.\d+\.1\.heap$")
        return self.command(*match[2].split()).stdout


class Run(Running):
    def test_it_says_where_the_profile_is_and_that_has_the_peak(self) -> None:
        text = self.told(self.command("run", "--profile=1", "--", PEAKING).stderr)
        self.assertRegex(text, r"\npeak: 3\.8\d MiB in 40\d blocks, \d.* after the profile began\n")
        self.assertRegex(text, r"\n +at peak +share +blocks +live +where\n +3\.81 MiB .* 400 +0 B +fill \(peaking")

    def test_another_sample_says_what_is_live_at_the_end(self) -> None:
        said = self.command("run", "--profile=1", "--", PEAKING, "3").stderr
        dump = str(next(self.folder.glob("*.heap")))
        self.assertIn(dump.rsplit("/", 1)[1], said)
        self.assertRegex(self.command("profile", "top", dump, "--sample=inuse_space").stdout, r"29\.3 KiB .* 3 .* fill")
        page = self.command("profile", "convert", "--format=html", dump).stdout
        self.assertRegex(page, r'"measure":6,')

    def test_of_few_samples_it_names_the_rate_to_take(self) -> None:
        options = ["--profile"]
        for _ in range(3):
            said = self.command("run", *options, "--", PEAKING).stderr
            match = re.search(r"it has only (\d+) samples?: .*; take (--profile=\w+)", said)
            if match is None:
                break
            options = [match[2]]
        self.assertNotEqual(options, ["--profile"])
        self.assertIsNone(match)
        self.assertGreater(
            int(re.search(r" samples=(\d+)", max(self.folder.glob("*.heap"), key=os.path.getmtime).read_text())[1]), 32
        )  # type: ignore[index]

    def test_a_signal_from_the_terminal_or_by_hand_ends_it_with_a_profile(self) -> None:
        for number, send in ((signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill), (signal.SIGHUP, os.killpg)):
            with self.subTest(number):
                process = self.waiting(str(COMMAND), "run", "--profile=1", "--", PEAKING, "7", "wait")
                send(process.pid, number)
                stderr = process.communicate(timeout=60)[1]
                self.assertEqual(process.returncode, -number)
                self.assertRegex(self.told(stderr), r"\n +3\.81 MiB .* 400 +68\.4 KiB +fill \(peaking")

    def test_a_signal_that_the_program_handles_is_the_programs(self) -> None:
        process = self.waiting(str(COMMAND), "run", "--profile=1", "--", PEAKING, "7", "handle")
        os.kill(process.pid, signal.SIGTERM)
        stderr = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 5)
        self.assertIn("fill", self.told(stderr))

    def test_stopping_and_going_on_is_as_ever(self) -> None:
        process = self.waiting(str(COMMAND), "run", "--profile=1", "--", PEAKING, "7", "wait")
        child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        os.kill(child, signal.SIGSTOP)
        self.until(child, "Tt")
        os.kill(child, signal.SIGCONT)
        self.until(child, "S")
        os.kill(child, signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)

    @staticmethod
    def until(process: int, states: str) -> None:
        while Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0] not in states:
            pass

    def test_what_cannot_be_is_refused(self) -> None:
        for value in ("", "abc"):
            self.command("run", f"--profile={value}", "true", status=WRONG_VALUE)
        self.command("run", "--profile", "--leaks", "true", status=OWN_FAILURE)
        self.assertEqual(list(self.folder.iterdir()), [])


class FromOutside(Running):
    """The profile of a running process is what it would write itself."""

    def test_of_a_process(self) -> None:
        setting = "1,dump=peak,dump=signal:USR1,prefix=own"
        process = self.waiting(str(COMMAND), "run", "--", PEAKING, "7", "wait", FREEWAY_PROFILE=setting)
        text = self.command("profile", "top", str(process.pid)).stdout
        self.assertRegex(text, r"\n +3\.81 MiB .* 400 +68\.4 KiB +fill \(peaking")
        os.kill(process.pid, signal.SIGUSR1)
        while not list(self.folder.glob("own.*")) or "MAPPED" not in next(self.folder.glob("own.*")).read_text():
            pass
        own = str(next(self.folder.glob("own.*")))
        for sample in ("peak_space", "inuse_space", "alloc_space"):
            convert = ("profile", "convert", "--format=collapsed", f"--sample={sample}")
            self.assertEqual(self.command(*convert, str(process.pid)).stdout, self.command(*convert, own).stdout)

    def test_of_a_process_by_name(self) -> None:
        # A name that no other process has. Its file is no dump, and may lie in the folder where the command is typed.
        program = Path(shutil.copy(PEAKING, self.folder / f"only_{os.getpid()}"))
        self.waiting(str(COMMAND), "run", "--", str(program), "7", "wait", FREEWAY_PROFILE="1,dump=peak")
        for folder in (self.folder, Path("/")):
            done = subprocess.run(
                [COMMAND, "profile", "top", program.name], cwd=folder, capture_output=True, text=True, check=False
            )
            self.assertRegex(done.stdout, r"\n +3\.81 MiB .* 400 +68\.4 KiB +fill \(peaking", done.stderr)

    def test_of_a_core_file(self) -> None:
        if shutil.which("gcore") is None:
            self.skipTest("there is no gcore")
        process = self.waiting(str(COMMAND), "run", "--", PEAKING, "7", "wait", FREEWAY_PROFILE="1,dump=peak")
        subprocess.run(["gcore", "-o", self.folder / "core", str(process.pid)], capture_output=True, check=True)
        text = self.command("profile", "top", str(self.folder / f"core.{process.pid}")).stdout
        self.assertRegex(text, r"\n +3\.81 MiB .* 400 +68\.4 KiB +fill \(peaking")

    def test_freeway_top_has_the_largest_stacks(self) -> None:
        process = self.waiting(str(COMMAND), "run", "--", PEAKING, "7", "wait", FREEWAY_PROFILE="1")
        text = self.command("top", "--once", str(process.pid)).stdout
        self.assertRegex(text, r"\nlargest stacks, .*\n +68\.4 KiB +\d+ %  fill < main( < \S+)*\n")
        largest = text.split("largest stacks")[1].split("\n\n")[0].splitlines()[1:]
        collapsed = self.command("profile", "convert", "--format=collapsed", "--sample=inuse_space", str(process.pid))
        stacks = [line.rsplit(" ", 1) for line in collapsed.stdout.splitlines()]
        stacks.sort(key=lambda each: -int(each[1]))
        self.assertEqual(len(largest), min(3, len(stacks)))
        for line, (functions, _) in zip(largest, stacks, strict=False):
            found = line.split("%  ")[1].split(" < ")
            self.assertEqual(found, functions.split(";")[::-1][: len(found)])
            self.assertLessEqual(len(line), 80)

    def test_while_freeway_top_runs_they_come_when_they_are_found(self) -> None:
        process = self.waiting(str(COMMAND), "run", "--", PEAKING, "7", "wait", FREEWAY_PROFILE="1")
        argv = [str(COMMAND), "top", "--interval=0.1", str(process.pid)]
        with subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as top:
            assert top.stdout is not None
            self.assertTrue(any("fill < main" in line for line in top.stdout))
            top.terminate()
            top.stdout.read()
        self.assertEqual(top.returncode, 0)

    def test_of_one_without_a_profile_it_says_what_to_do(self) -> None:
        process = self.waiting(str(COMMAND), "run", "--", PEAKING, "7", "wait")
        self.assertIn(
            "largest stacks: only with a heap profile (freeway run --profile -- PROGRAM)\n",
            self.command("top", "--once", str(process.pid)).stdout,
        )
        done = subprocess.run(
            [COMMAND, "profile", "top", str(process.pid)], capture_output=True, text=True, check=False
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("freeway run --profile", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
