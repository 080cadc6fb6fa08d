# SPDX-License-Identifier: MIT
"""Tests of the `freeway` command ($FREEWAY_COMMAND with $FREEWAY_LIB), run as its users run it.

What `run` preloads is proven by what only the library can say (its summary, its complaints), what it puts into the
environment by env(1). $STATIC_PROGRAM is a statically linked program."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND = Path(os.environ["FREEWAY_COMMAND"])
LIBRARY = Path(os.environ["FREEWAY_LIB"])
STATIC_PROGRAM = os.environ["STATIC_PROGRAM"]
ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include/freeway/freeway.h"
WRONG_VALUE, OWN_FAILURE, NOT_EXECUTABLE, NOT_FOUND = 2, 125, 126, 127
ENGINES = ["michael", "lfmalloc", "streamflow", "hmalloc", "nbbs"]
WRONG_SETTINGS = [
    ("michael", "heaps=-1"),
    ("michael", "heaps=many"),
    ("michael", "heaps=99999999999999999999"),
    ("michael", "levels=4"),
    ("nbbs", "levels-per-word=2"),
    ("nbbs", "levels-per-word="),
    ("nbbs", "levels=99"),
    ("hmalloc", "heaps"),
]
NAME_WIDTH = 14  # of the names in doctor's list
SUMMARY = "freeway: what the heap did"
ENVIRONMENT = {"FREEWAY_LIB": str(LIBRARY)}


def freeway(
    *arguments: str, command: Path = COMMAND, env: dict[str, str] | None = None, cwd: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command in an environment without Freeway's variables, but for the library's place and `env`."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("FREEWAY_") and k != "LD_PRELOAD"}
    variables |= ENVIRONMENT if env is None else env
    return subprocess.run(
        [str(command), *arguments], env=variables, cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def environment_under(*options: str, env: dict[str, str] | None = None, cwd: str | None = None) -> dict[str, str]:
    """The environment that a program run with `options` sees."""
    out = freeway("run", *options, "--", "env", "-0", env=env, cwd=cwd).stdout
    return dict(entry.split("=", 1) for entry in out.split("\0") if "=" in entry)


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="freeway-command-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def executable(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o755)
        return path


class Usage(unittest.TestCase):
    def test_version_is_that_of_the_header(self) -> None:
        parts = re.findall(r"#define FREEWAY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", HEADER.read_text())
        first, second = freeway("--version").stdout.splitlines()
        self.assertEqual(first, f"freeway {'.'.join(parts)}")
        self.assertRegex(second, r"^commit ([0-9a-f]{12}(-dirty)?|unknown); (x86_64|aarch64), \w+ [\d.]+, \w+$")
        if (ROOT / ".git").exists():
            git = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
            self.assertTrue(git.stdout.startswith(second.split()[1].removesuffix(";").removesuffix("-dirty")), second)

    def test_help_names_every_subcommand_and_option(self) -> None:
        out = freeway("--help").stdout
        for word in (
            "run",
            "trim",
            "engines",
            "doctor",
            "options",
            "leaks",
            "--version",
            "--stats",
            "--no-rseq",
            "--harden",
            "--on-error",
            "--leaks",
            "--leaks-status",
            "--leaks-dump",
        ):
            self.assertIn(word, out)

    def test_what_is_not_understood_is_named(self) -> None:
        for arguments in (["fly"], ["run", "--fly", "--", "true"], ["engines", "fly"], ["run", "--statsfly", "true"]):
            outcome = freeway(*arguments)
            self.assertEqual(outcome.returncode, OWN_FAILURE, arguments)
            self.assertIn("fly" if "engines" not in arguments else "engines", outcome.stderr)
            self.assertIn("freeway --help", outcome.stderr)

    def test_nothing_to_do_is_a_failure(self) -> None:
        for arguments in ([], ["run"], ["run", "--stats"], ["run", "--"]):
            self.assertEqual(freeway(*arguments).returncode, OWN_FAILURE, arguments)


class Documentation(unittest.TestCase):
    def test_manual_page_has_every_option_of_the_help(self) -> None:
        page = (ROOT / "docs/man/freeway.1").read_text().replace("Fl -", "--")
        for option in set(re.findall(r"--[a-z][-a-z]*", freeway("--help").stdout)):
            self.assertIn(option, page)

    def test_page_of_options_has_every_variable_of_the_library_with_its_values(self) -> None:
        page = (ROOT / "docs/options.md").read_text()
        variables = re.findall(r"(FREEWAY_\w+)=(\S+)", freeway("options").stdout)
        self.assertTrue(variables)
        for name, values in variables:
            row = re.search(rf"^\| `{name}` \| ([^|]*) \|", page, flags=re.MULTILINE)
            assert row is not None, name
            self.assertEqual(sorted(row[1].strip().split(", ")), sorted(values.split("|")), name)

    def test_manual_pages_of_the_library_explain_every_exported_function(self) -> None:
        lists = [ROOT / folder / "exported_symbols.txt" for folder in ("tests/whole/golden", "shared/tests")]
        names = [name for path in lists for name in path.read_text().split() if name.startswith("freeway_")]
        self.assertGreater(len(names), 30)
        for name in names:
            page = "freeway-shared.3" if name.startswith("freeway_shared_") else "freeway.3"
            synopsis, _, rest = (ROOT / "docs/man" / page).read_text().partition(".Sh DESCRIPTION")
            self.assertRegex(synopsis, rf"\b{name}\b")
            self.assertRegex(rest, rf"\b{name}\b")

    def test_manual_page_of_the_library_has_every_variable_and_field_of_the_statistics(self) -> None:
        page = (ROOT / "docs/man/freeway.3").read_text()
        for name in re.findall(r"(FREEWAY_\w+)=\S+", freeway("options").stdout):
            self.assertRegex(page, rf"\b{name}\b")
        with tempfile.NamedTemporaryFile() as file:
            freeway("run", f"--stats=json:{file.name}", "--", "perl", "-e", "1")
            fields = json.loads(Path(file.name).read_text())
        header = HEADER.read_text().partition("typedef struct freeway_stats_t")[2].partition("}")[0]
        for name in set(fields) - set(re.findall(r"(\w+);", header)):
            self.assertRegex(page, rf"Cm .*\b{name}\b")
        for name in fields["classes"][0]:
            self.assertRegex(page, rf"Cm .*\b{name}\b")


class Run(InAFolder):
    def test_program_gets_its_arguments_and_gives_its_status(self) -> None:
        outcome = freeway("run", "--", "sh", "-c", 'printf "%s|" "$@"; exit 7', "name", "a b", "--stats", "")
        self.assertEqual((outcome.returncode, outcome.stdout, outcome.stderr), (7, "a b|--stats||", ""))

    def test_options_end_at_the_program_without_two_dashes_too(self) -> None:
        self.assertEqual(freeway("run", "echo", "--stats").stdout, "--stats\n")

    def test_program_that_is_killed_is_seen_as_killed(self) -> None:
        self.assertEqual(freeway("run", "sh", "-c", "kill -9 $$").returncode, -signal.SIGKILL)

    def test_program_that_is_not_there(self) -> None:
        for name in ("no-such-program", "/no/such/program"):
            outcome = freeway("run", "--", name)
            self.assertEqual(outcome.returncode, NOT_FOUND)
            self.assertIn(name, outcome.stderr)

    def test_file_that_is_no_program(self) -> None:
        text = self.folder / "text"
        text.write_text("no program\n")
        for name in (str(text), str(self.folder)):
            self.assertEqual(freeway("run", "--", name).returncode, NOT_EXECUTABLE, name)

    def test_script_without_a_first_line_is_run_by_the_shell(self) -> None:
        script = self.executable("script", b"echo from the shell\n")
        self.assertEqual(freeway("run", str(script)).stdout, "from the shell\n")

    def test_program_runs_under_the_library(self) -> None:
        outcome = freeway("run", "--stats", "--", "true")
        self.assertEqual(outcome.returncode, 0)
        self.assertIn(SUMMARY, outcome.stderr)

    def test_each_option_reaches_the_library(self) -> None:
        self.assertIn("(spare)", freeway("run", "--no-rseq", "--stats", "true").stderr)
        self.assertIn("(hardened)", freeway("run", "--harden", "--stats", "true").stderr)
        self.assertEqual(environment_under("--harden=0")["FREEWAY_HARDEN"], "0")
        self.assertIn("  path       spare slabs: ", freeway("run", "--no-rseq", "--stats", "true").stderr)
        self.assertEqual(environment_under("--on-error=report")["FREEWAY_ON_ERROR"], "report")

    def test_value_that_the_library_does_not_understand_is_refused(self) -> None:
        flags = set(re.findall(r"^ +(--[a-z-]+)=", freeway("--help").stdout, flags=re.MULTILINE))
        variables = {"--stats": "STATS", "--harden": "HARDEN", "--guard": "GUARD", "--on-error": "ON_ERROR"}
        self.assertEqual(flags, variables.keys(), "each option that takes a value so")
        values = [
            "0",
            "1",
            "2",
            "3",
            "7",
            "-1",
            "abc",
            "01",
            "1 ",
            " 1",
            "1x",
            "0x1",
            "1000000000",
            "1000000001",
            "9" * 30,
            "1,fill",
            "0,fill",
            "1,quarantine=64k",
            "1,large",
            "0,large",
        ]
        values += [
            "abort",
            "report",
            "ABORT",
            "report,abort",
            "json:",
            "text:",
            "yaml:x",
            "json",
            f"json:{self.folder}/a",
        ]
        refused = 0
        for flag, variable in variables.items():
            for value in values:
                with self.subTest(flag=flag, value=value):
                    env = {"LD_PRELOAD": str(LIBRARY), f"FREEWAY_{variable}": value}
                    said = subprocess.run(["true"], env=env, capture_output=True, text=True, check=True).stderr
                    understood = "is not understood" not in said
                    outcome = freeway("run", f"{flag}={value}", "--", "echo", "ran")
                    self.assertEqual(outcome.stdout, "ran\n" if understood else "")
                    self.assertEqual(outcome.returncode, 0 if understood else WRONG_VALUE, outcome.stderr)
                    if not understood:
                        self.assertIn(f"{flag}={value} is not understood", outcome.stderr)
                        refused += 1
        self.assertGreater(refused, 0)

    def test_option_without_its_value_is_refused(self) -> None:
        for flag in ("--stats=", "--harden=", "--guard=", "--on-error=", "--leaks="):
            outcome = freeway("run", flag, "--", "echo", "ran")
            self.assertEqual((outcome.returncode, outcome.stdout), (WRONG_VALUE, ""), flag)

    def test_leaks_of_no_interval_are_refused(self) -> None:
        for value in ("0", "-1", "abc", "1,dump=exit", "10%"):
            outcome = freeway("run", f"--leaks={value}", "--", "echo", "ran")
            self.assertEqual((outcome.returncode, outcome.stdout), (WRONG_VALUE, ""), value)

    def test_variable_that_is_no_option_is_named(self) -> None:
        meant = {"HARDENED": "HARDEN", "GAURD": "GUARD", "STAT": "STATS", "LIMITS": "LIMIT", "LEVEL": "LEVELS", "": ""}
        meant |= {"LOG_LEVEL": "", "harden": "", "PROFIL": "PROFILE"}
        for name, option in meant.items():
            with self.subTest(name):
                outcome = freeway("run", "--", "echo", "ran", env=ENVIRONMENT | {f"FREEWAY_{name}": "1"})
                self.assertEqual((outcome.returncode, outcome.stdout), (0, "ran\n"))
                self.assertIn(f"FREEWAY_{name} in the environment is no option", outcome.stderr)
                self.assertEqual("is it FREEWAY_" in outcome.stderr, option != "")
                if option:
                    self.assertIn(f"is it FREEWAY_{option}?", outcome.stderr)

    def test_variable_that_is_an_option_is_not_named(self) -> None:
        names = re.findall(r"^ +FREEWAY_(\w+)=", freeway("options").stdout, flags=re.MULTILINE)
        self.assertIn("HARDEN", names)
        for name in [*names, "HEAPS", "LEVELS_PER_WORD", "NO_INSTALL", "BUILD_DIR", "TEST_SEED"]:
            with self.subTest(name):
                outcome = freeway("run", "--", "true", env=ENVIRONMENT | {f"FREEWAY_{name}": ""})
                self.assertEqual(outcome.stderr, "")
        self.assertEqual(
            freeway("run", "--", "true", env=ENVIRONMENT | {"FREEWAYS": "1", "MY_FREEWAY_X": "1"}).stderr, ""
        )

    def test_report_names_its_process(self) -> None:
        outcome = freeway("run", "--stats", "--", "perl", "-e", "print $$")
        self.assertRegex(outcome.stderr, rf"{SUMMARY} \(\w+\) in perl, process {outcome.stdout}\n")

    def test_statistics_file_of_each_process_by_its_number(self) -> None:
        freeway("run", f"--stats=json:{self.folder}/100%%-%p", "--", "perl", "-e", "fork; print qq($$\n)")
        files = sorted(self.folder.iterdir())
        self.assertEqual(len(files), 2)
        for file in files:
            figures = json.loads(file.read_text())
            self.assertEqual((file.name, figures["program"]), (f"100%-{figures['pid']}", "perl"))

    def test_name_of_the_program_cannot_spoil_the_json(self) -> None:
        odd = self.folder / 'odd "na\\me\n\xe9'
        odd.symlink_to(shutil.which("perl") or "")
        freeway("run", f"--stats=json:{self.folder}/stats", "--", str(odd), "-e", "1")
        self.assertEqual(json.loads((self.folder / "stats").read_text())["program"], 'odd "na\\me???')

    def test_statistics_file_is_where_the_caller_meant_it(self) -> None:
        freeway("run", "--stats=json:here.json", "--", "perl", "-e", "chdir '/'", cwd=str(self.folder))
        self.assertIn("live", json.loads((self.folder / "here.json").read_text()))

    def test_preload_that_is_set_already_stays_in_front(self) -> None:
        other = "libSegFault-that-is-not-there.so"
        env = {"FREEWAY_LIB": str(LIBRARY), "LD_PRELOAD": other}
        self.assertEqual(environment_under(env=env)["LD_PRELOAD"], f"{other}:{LIBRARY}")
        self.assertEqual(environment_under()["LD_PRELOAD"], str(LIBRARY))


class Statistics(InAFolder):
    """What --stats shows where a program is more than one process."""

    def reports(self, *program: str) -> tuple[list[str], str]:
        """The programs whose tables are shown, and all of fd 2."""
        errors = freeway("run", "--stats", "--", *program, env={**ENVIRONMENT, "TMPDIR": str(self.folder)}).stderr
        self.assertEqual(list(self.folder.glob("freeway-*")), [], "the folder of reports is removed")
        return re.findall(rf"{SUMMARY} \(\w+\) in (.*), process \d+", errors), errors

    def test_program_is_shown_and_its_children_are_summed_up(self) -> None:
        shown, errors = self.reports("perl", "-e", "for (1..3) { system('true') }")
        self.assertEqual(shown, ["perl"])
        self.assertRegex(
            errors, r"\nfreeway: and in 3 other processes: \d+ blocks live, slow path \d+ mallocs, \d+ frees\n"
        )

    def test_program_without_children_has_no_sum(self) -> None:
        shown, errors = self.reports("true")
        self.assertEqual((shown, errors.count("freeway: ")), (["true"], 1))

    def test_shim_is_not_shown_but_the_program_that_it_starts(self) -> None:
        work = "perl -e 'push @a, qq(x) x $_ for 1..3000'"
        for last in (work, f"exec {work}", f"{work}; true"):
            script = self.executable("shim", f"#!/bin/sh\ntrue; ls >/dev/null; {last}\n".encode())
            shown, errors = self.reports(str(script))
            self.assertEqual(shown, ["perl"], errors)
            self.assertIn("freeway: and in ", errors)

    def test_script_that_does_its_work_itself_is_shown(self) -> None:
        script = self.executable("work.pl", b"#!/usr/bin/env perl\nsystem(qw(perl -e), 'push @a, $_ for 1..1e5');\n")
        shown, errors = self.reports(str(script))
        self.assertEqual(shown, ["perl"])
        self.assertIn("freeway: and in 1 other process:", errors)

    def test_program_that_leaves_no_report_is_named(self) -> None:
        outcome = freeway("run", "--stats", "--", "sh", "-c", "kill -9 $$")
        self.assertEqual(outcome.returncode, -signal.SIGKILL)
        self.assertRegex(outcome.stderr, r"no report of \S*/sh, process \d+: it did not end by exit\n")

    def test_status_is_the_program_s(self) -> None:
        for program, status in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -TERM $$"], -signal.SIGTERM)):
            self.assertEqual(freeway("run", "--stats", "--", *program).returncode, status)
        self.assertEqual(freeway("run", "--stats", "--", "/no/program").returncode, NOT_FOUND)
        # Nor does it matter that whoever started the command ignores the end of children.
        ignored = [str(COMMAND), "run", "--stats", "--", "sh", "-c", "exit 7"]
        shell = ["sh", "-c", "trap '' CHLD; exec \"$@\"", "sh", *ignored]
        self.assertEqual(subprocess.run(shell, capture_output=True, check=False, env=ENVIRONMENT).returncode, 7)

    def test_end_that_is_asked_of_the_command_is_the_program_s(self) -> None:
        script = "trap 'echo ended; exit 3' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"
        outcome = freeway("run", "--stats", "--", "sh", "-c", script)
        self.assertEqual((outcome.returncode, outcome.stdout), (3, "ended\n"))


class Engines(unittest.TestCase):
    built = tuple(name for name in ENGINES if (LIBRARY.parent / f"libfreeway-{name}.so.0").exists())

    def test_list_has_a_line_for_each_with_its_paper_and_mode(self) -> None:
        lines = freeway("engines").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["freeway", *ENGINES])
        for line in lines:
            name = line.split()[0]
            works = name == "freeway" or name in self.built
            self.assertEqual("not installed" not in line, works, line)
            self.assertNotIn("does not work", line)
            self.assertRegex(line, r"\b20\d\d\b|the five")

    def test_program_runs_under_each(self) -> None:
        for name in self.built:
            for arguments in (["--engine", name], [f"--engine={name}"]):
                outcome = freeway("run", *arguments, "--", "sh", "-c", "grep -o 'libfreeway[^ ]*' /proc/self/maps")
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                self.assertEqual({line.split(".so")[0] for line in outcome.stdout.split()}, {f"libfreeway-{name}"})

    def test_unknown_engine_is_one_line_and_status_2(self) -> None:
        for name in ("fly", "", "Michael"):
            outcome = freeway("run", "--engine", name, "--", "true")
            self.assertEqual((outcome.returncode, len(outcome.stderr.splitlines())), (WRONG_VALUE, 1), outcome.stderr)
            self.assertIn("streamflow", outcome.stderr)

    def test_wrong_option_of_an_engine_is_one_line_and_status_2(self) -> None:
        for engine, setting in WRONG_SETTINGS:
            outcome = freeway("run", "--engine", engine, "--set", setting, "--", "true")
            self.assertEqual((outcome.returncode, len(outcome.stderr.splitlines())), (WRONG_VALUE, 1), setting)
            self.assertIn(setting.split("=")[0], outcome.stderr)

    def test_option_of_an_engine_reaches_it(self) -> None:
        if "michael" not in self.built:
            self.skipTest("michael is not built")
        out = freeway("run", "--engine=michael", "--set=heaps=3", "--set", "partial-slots=2", "--", "env").stdout
        self.assertIn("FREEWAY_HEAPS=3\n", out)
        self.assertIn("FREEWAY_PARTIAL_SLOTS=2\n", out)


class WhereTheLibraryIs(InAFolder):
    def installed(self, command: str, library: str | None) -> Path:
        """The command (and the library) copied to these places below the folder."""
        for source, place in ((COMMAND, command), (LIBRARY, library)):
            if place is not None:
                (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, self.folder / place)
        return self.folder / command

    def test_beside_the_command_or_in_lib_beside_bin(self) -> None:
        for number, library in enumerate(("bin/libfreeway.so.0", "lib/libfreeway.so.0")):
            command = self.installed(f"{number}/bin/freeway", f"{number}/{library}")
            outcome = freeway("run", "--", "env", command=command, env={})
            self.assertIn(f"LD_PRELOAD={self.folder / str(number) / library}\n", outcome.stdout)

    def test_nowhere(self) -> None:
        outcome = freeway("run", "true", command=self.installed("bin/freeway", None), env={})
        if Path("/usr/local/lib/libfreeway.so.0").exists():
            self.skipTest("it is installed where installing puts it")
        self.assertEqual(outcome.returncode, OWN_FAILURE)
        self.assertIn("FREEWAY_LIB", outcome.stderr)
        self.assertIn(f"{self.folder}/lib/libfreeway.so.0", outcome.stderr)

    def test_variable_that_names_nothing(self) -> None:
        outcome = freeway("run", "true", env={"FREEWAY_LIB": "/no/such/library"})
        self.assertEqual(outcome.returncode, OWN_FAILURE)
        self.assertIn("/no/such/library", outcome.stderr)

    def test_path_that_cannot_be_preloaded(self) -> None:
        command = self.installed("a folder/freeway", "a folder/libfreeway.so.0")
        outcome = freeway("run", "true", command=command, env={})
        self.assertEqual(outcome.returncode, OWN_FAILURE)
        self.assertIn("space or colon", outcome.stderr)


class WhatCannotBePreloaded(InAFolder):
    def assert_refused(self, program: str, why: str) -> None:
        outcome = freeway("run", "--", program)
        self.assertEqual(outcome.returncode, OWN_FAILURE, outcome.stderr)
        self.assertIn(why, outcome.stderr)

    def test_static_program(self) -> None:
        self.assert_refused(STATIC_PROGRAM, "statically linked")

    def test_script_of_a_static_interpreter(self) -> None:
        interpreter = self.executable("static", Path(STATIC_PROGRAM).read_bytes())  # in a folder without blanks
        script = self.executable("script", f"#! {interpreter} -x\n".encode())
        self.assert_refused(str(script), f"{interpreter} is statically linked")

    def test_setuid_program(self) -> None:
        if os.getuid() != 0:
            self.assert_refused("/bin/su", "setuid")
            return
        program = self.executable("setuid", Path("/bin/true").read_bytes())
        os.chown(program, 65534, 65534)
        self.assertEqual(freeway("run", "--", str(program)).returncode, 0)
        program.chmod(0o4755)
        self.assert_refused(str(program), "setuid")
        program.chmod(0o2755)
        self.assert_refused(str(program), "setgid")

    def test_program_with_another_loader(self) -> None:
        true = Path("/bin/true").read_bytes()
        loader = re.search(rb"/lib\S*/(ld-linux[-\w]*\.so\.\d)\0", true)
        assert loader is not None
        other = b"/lib/ld-other.so.1".ljust(len(loader[0]), b"\0")
        self.assert_refused(
            str(self.executable("other", true.replace(loader[0], other))), "its loader is ld-other.so.1"
        )

    def test_program_of_another_word_size(self) -> None:
        true = bytearray(Path("/bin/true").read_bytes())
        true[4] = 1  # EI_CLASS: 32 bits
        self.assert_refused(str(self.executable("narrow", bytes(true))), "another C library or processor")


class Sanitizers(InAFolder):
    """A program that looks for errors in its use of malloc is run, with a warning."""

    def built_with(self, *options: str) -> Path:
        compiler = shutil.which("cc") or shutil.which("c++")
        assert compiler is not None
        program = self.folder / f"program{''.join(options)}"
        source = self.folder / "program.c"
        source.write_text("int main(void) { return 0; }\n")
        subprocess.run([compiler, *options, str(source), "-o", str(program)], check=True, capture_output=True)
        return program

    def test_each_is_named_and_the_program_runs(self) -> None:
        for option, name in (("thread", "Thread"), ("leak", "Leak"), ("address", "Address")):
            program = self.built_with(f"-fsanitize={option}")
            said = freeway("run", "--", str(program)).stderr
            self.assertTrue(said.startswith(f"freeway: {program} is built with {name}Sanitizer, "), said)

    def test_of_a_script_it_is_its_interpreter_s(self) -> None:
        script = self.executable("script", f"#!{self.built_with('-fsanitize=thread')}\n".encode())
        self.assertIn("is built with ThreadSanitizer", freeway("run", str(script)).stderr)

    def test_other_programs_get_no_warning(self) -> None:
        outcome = freeway("run", "--", str(self.built_with()))
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))

    def test_file_that_ends_early_is_no_trouble(self) -> None:
        whole = self.built_with("-fsanitize=thread").read_bytes()
        for length in (4, 5, 63, 64, 100, 700):
            outcome = freeway("run", str(self.executable("short", whole[:length])))
            self.assertGreater(outcome.returncode, 0, outcome.stderr)


class Options(unittest.TestCase):
    def test_list_is_that_of_the_page(self) -> None:
        lines = freeway("options").stdout.splitlines()[1:]
        page = (ROOT / "docs/options.md").read_text()
        named = re.findall(r"^\| `FREEWAY_([A-Z_]+)`", page, re.MULTILINE)
        self.assertEqual([line.split("=")[0] for line in lines], [f"  FREEWAY_{name}" for name in named])
        self.assertLess(max(map(len, lines)), 130)


class Doctor(InAFolder):
    def facts(self, env: dict[str, str] | None = None) -> dict[str, str]:
        """What doctor said: value by name."""
        outcome = freeway("doctor", env=env)
        self.assertEqual(outcome.returncode, 0, outcome.stdout)
        return {line[:NAME_WIDTH].rstrip(): line[NAME_WIDTH + 1 :] for line in outcome.stdout.splitlines()}

    def test_path_is_what_the_library_says_at_its_end(self) -> None:
        for mode in ("0", "1"):
            env = {"FREEWAY_LIB": str(LIBRARY), "FREEWAY_RSEQ": mode}
            said = freeway("run", "--stats", "true", env=env).stderr
            self.assertIn(f"\n  path       {self.facts(env)['path']}\n", said)

    def test_other_options_do_not_disturb_it(self) -> None:
        env = {"FREEWAY_LIB": str(LIBRARY), "FREEWAY_HARDEN": "1", "FREEWAY_STATS": "1"}
        self.assertEqual(self.facts(env)["path"], self.facts()["path"])

    def test_facts_are_those_of_the_machine(self) -> None:
        facts = self.facts()
        self.assertIn(os.uname().release, facts["kernel"])
        self.assertEqual(facts["page size"], f"{os.sysconf('SC_PAGESIZE') // 1024} KiB")
        self.assertTrue(facts["overcommit"].startswith(Path("/proc/sys/vm/overcommit_memory").read_text().strip()))
        self.assertIn(Path("/proc/sys/vm/max_map_count").read_text().strip(), facts["mappings"])
        self.assertIn(f"{len(os.sched_getaffinity(0))} of ", facts["CPUs"])

    def test_address_space_limit_is_seen(self) -> None:
        # A limit that is no round number: the library reserves in parts of it.
        script = f"ulimit -v 2000000; FREEWAY_LIB='{LIBRARY}' exec '{COMMAND}' doctor"
        outcome = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(outcome.returncode, 0, outcome.stdout)
        self.assertIn("RLIMIT_AS is 2000000 KiB", outcome.stdout)

    def test_rseq_that_the_c_library_was_told_not_to_register(self) -> None:
        if "registered by" not in self.facts()["rseq"]:
            self.skipTest("there is no rseq here anyway")
        env = {"FREEWAY_LIB": str(LIBRARY), "GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
        facts = self.facts(env)
        self.assertEqual(facts["rseq"], "not registered by the C library")
        self.assertTrue(facts["path"].endswith(", registered by Freeway"), facts["path"])
        path = self.facts({**env, "FREEWAY_RSEQ": "libc"})["path"]
        self.assertEqual(path, "spare slabs: the C library registers no rseq")

    def test_what_the_kernel_does_is_tried(self) -> None:
        for tunables in ("", "glibc.pthread.rseq=0"):
            facts = self.facts({"FREEWAY_LIB": str(LIBRARY), "GLIBC_TUNABLES": tunables})
            self.assertIn(facts["vfork"], ("the child runs on its parent's memory", "a fork: the child has a copy"))
            self.assertRegex(facts["restarts"], "^(yes|NO|not tried): ")

    def test_deep_binding_is_said_to_be_kept_where_it_is(self) -> None:
        self.assertTrue(self.facts()["RTLD_DEEPBIND"].startswith("cleared"))
        self.assertTrue(self.facts({**ENVIRONMENT, "FREEWAY_DEEPBIND": "1"})["RTLD_DEEPBIND"].startswith("kept"))

    def test_library_that_does_not_load(self) -> None:
        outcome = freeway("doctor", env={"FREEWAY_LIB": str(Path(__file__).resolve())})
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("does not work here", outcome.stdout)

    def test_other_malloc_in_front(self) -> None:
        compiler = shutil.which("cc") or shutil.which("c++")
        assert compiler is not None
        source = self.folder / "other.c"
        source.write_text(
            "extern void *__libc_malloc(unsigned long);\nvoid *malloc(unsigned long n) { return __libc_malloc(n); }\n"
        )
        other = self.folder / "libother.so"
        subprocess.run([compiler, "-fno-builtin", "-shared", "-fPIC", "-x", "c", source, "-o", other], check=True)
        outcome = freeway("doctor", env={"FREEWAY_LIB": str(LIBRARY), "LD_PRELOAD": str(other)})
        self.assertEqual(outcome.returncode, 1, outcome.stdout)
        self.assertIn("malloc is another library's", outcome.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
