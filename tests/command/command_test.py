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
sys.path.insert(0, str(ROOT))
from tools.lint import usage  # noqa: E402

HEADER = ROOT / "include/freeway/freeway.h"
CANNOT, WRONG_USAGE, NOT_PRELOADED, NOT_EXECUTABLE, NOT_FOUND = 1, 2, 125, 126, 127
COMMANDS = [
    "run",
    "trim",
    "stat",
    "top",
    "classes",
    "map",
    "blocks",
    "leaks",
    "profile",
    "profile top",
    "profile diff",
    "profile convert",
    "doctor",
    "options",
    "engines",
    "completion",
    "help",
    "version",
]
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

    def test_version_may_be_asked_for_as_a_command(self) -> None:
        self.assertEqual(freeway("version").stdout, freeway("--version").stdout)

    def test_without_a_command_it_says_what_to_try(self) -> None:
        outcome = freeway()
        self.assertEqual((outcome.returncode, outcome.stdout), (WRONG_USAGE, ""))
        for word in ("freeway doctor", "freeway run PROGRAM", "freeway --help"):
            self.assertIn(word, outcome.stderr)

    def test_help_lists_every_command(self) -> None:
        out = freeway("--help").stdout
        self.assertEqual(freeway("help").stdout, out)
        for name in COMMANDS:
            self.assertEqual(bool(re.search(rf"^  {name} +\S", out, re.MULTILINE)), " " not in name, name)

    def test_every_command_explains_itself(self) -> None:
        for name in COMMANDS:
            with self.subTest(name):
                outcome = freeway(*name.split(), "--help")
                self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
                self.assertTrue(outcome.stdout.startswith(f"Usage: freeway {name}"), outcome.stdout)
                self.assertRegex(
                    outcome.stdout, r"(?s)\nOptions:\n.*  -h, --help .*\nExamples:\n(?:  \S.*\n      \S.*\n){2}"
                )
                self.assertRegex(outcome.stdout, r"(?s)\nExit status:\n.*\n  2 +wrong usage")
                self.assertEqual(freeway("help", *name.split()).stdout, outcome.stdout)
                self.assertEqual(freeway(*name.split(), "-h").stdout, outcome.stdout)

    def test_help_is_as_wide_as_the_terminal(self) -> None:
        for columns, widest in (("", 80), ("60", 60), ("100", 100), ("no", 80)):
            variables = ENVIRONMENT | ({"COLUMNS": columns} if columns else {})
            for arguments in (["--help"], ["run", "--help"], ["stat", "--help"], ["options"]):
                lines = freeway(*arguments, env=variables).stdout.splitlines()
                wide = [each for each in lines if len(each) > widest and not re.match(r"  \S+( \S+)*$", each)]
                self.assertEqual(wide, [])
                self.assertGreater(max(map(len, lines)), widest - 12)

    def test_help_behind_the_program_is_the_program_s(self) -> None:
        for option in ("--help", "-h", "--"):
            self.assertEqual(freeway("run", "printf", "%s", option).stdout, option)

    def test_what_is_not_understood_is_named_and_something_like_it(self) -> None:
        for arguments, said in (
            (["fly"], "no command fly (see `freeway --help`)"),
            (["stta", "1"], "no command stta: did you mean stat?"),
            (["profile", "tpo", "x"], "no command profile tpo: did you mean profile top?"),
            (["help", "rnu"], "no command rnu: did you mean run?"),
            (["run", "--fly", "--", "true"], "no option --fly (see `freeway run --help`)"),
            (["run", "--hardne", "--", "true"], "no option --hardne: did you mean --harden?"),
            (["run", "--limits=1g", "--", "true"], "no option --limits: did you mean --limit?"),
            (["stat", "--jsno", "1"], "no option --jsno: did you mean --json?"),
            (["profile", "top", "--smaple", "waste", "x"], "no option --smaple: did you mean --sample?"),
            (["stat", "--json=1", "1"], "--json takes no value"),
            (["stat"], "it wants PID|NAME|CORE"),
            (["engines", "fly"], "'fly' is too much"),
            (["run", "--limit"], "--limit wants a value: SOFT[,HARD]"),
            (["completion", "tcsh"], "bash, zsh and fish"),
        ):
            outcome = freeway(*arguments)
            self.assertEqual((outcome.returncode, outcome.stdout), (WRONG_USAGE, ""), arguments)
            self.assertIn(said, outcome.stderr)
            self.assertRegex(outcome.stderr, r"^freeway: .*--help`\)\n$")

    def test_nothing_to_do_is_wrong_usage(self) -> None:
        for arguments in ([], [""], ["run"], ["run", "--stats"], ["run", "--"]):
            self.assertEqual(freeway(*arguments).returncode, WRONG_USAGE, arguments)

    def test_each_command_has_the_statuses_of_the_table(self) -> None:
        nobody = str(2**22 + 1)
        for arguments, status in (
            *(([each, nobody], CANNOT) for each in ("stat", "top", "classes", "map", "leaks", "trim")),
            *(
                ([each, "no such program or core"], CANNOT)
                for each in ("stat", "top", "classes", "map", "leaks", "trim")
            ),
            (["blocks", nobody, "0"], CANNOT),
            (["profile", "top", "/no/dump"], CANNOT),
            (["profile", "diff", "/no/dump", "/no/dump"], CANNOT),
            (["profile", "convert", "--format=html", "/no/dump"], CANNOT),
            (["doctor", "no-such-program"], CANNOT),
            (["doctor", STATIC_PROGRAM], CANNOT),
            (["run", "no-such-program"], NOT_FOUND),
            (["run", "/etc/passwd"], NOT_EXECUTABLE),
            (["run", STATIC_PROGRAM], NOT_PRELOADED),
            *(([*each.split(), "--fly"], WRONG_USAGE) for each in COMMANDS),
            *(([each], 0) for each in ("options", "engines", "help", "version", "doctor")),
        ):
            outcome = freeway(*arguments)
            self.assertEqual(outcome.returncode, status, (arguments, outcome.stderr))
            if arguments[0] != "doctor":  # which answers on standard output
                self.assertEqual(outcome.stderr == "", status == 0)

    def test_answer_that_cannot_be_written_is_a_failure(self) -> None:
        for arguments in (["--help"], ["options"], ["version"]):
            with Path("/dev/full").open("w") as full:
                done = subprocess.run([COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
            self.assertEqual((done.returncode, b"could not be written" in done.stderr), (CANNOT, True))


class Completion(InAFolder):
    """What shells offer behind words that were typed."""

    def offered(self, *words: str) -> list[str]:
        """By bash."""
        script = (
            'source <("$0" completion bash); COMP_WORDS=(freeway "$@"); COMP_CWORD=$#; _freeway; '
            'printf "%s\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-euc", script, str(COMMAND), *words], capture_output=True, text=True, timeout=60, check=True
        )
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes_what_there_is(self) -> None:
        self.assertEqual(
            set(self.offered("")), {each for each in COMMANDS if " " not in each} | {"--help", "--version"}
        )
        for words, expected in (
            (["st"], ["stat"]),
            (["run", "--hard"], ["--harden"]),
            (["run", "--lim"], ["--limit="]),
            (["run", "--purge", ""], ["default", "never"]),
            (["run", "--purge", "=", "n"], ["never"]),
            (["profile", ""], ["top", "diff", "convert"]),
            (["profile", "convert", "--form"], ["--format"]),
            (["profile", "convert", "--format", "h"], ["html"]),
            (["completion", ""], ["bash", "zsh", "fish"]),
        ):
            self.assertEqual(self.offered(*words), expected, words)
        self.assertIn(str(os.getpid()), self.offered("stat", ""))
        self.assertIn("env", self.offered("run", "en"))

    def test_every_option_is_offered_by_every_shell(self) -> None:
        zsh, fish = (freeway("completion", shell).stdout for shell in ("zsh", "fish"))
        for name in COMMANDS:
            options = set(re.findall(r"^  (-[-a-z]+)", freeway(*name.split(), "--help").stdout, re.MULTILINE)) - {"-h"}
            offered = {each.rstrip("=") for each in self.offered(*name.split(), "-")}
            self.assertEqual(offered, options | {"--help"}, name)
            for option in options:
                self.assertIn(f"'{option}", zsh)
                self.assertIn(f" -l {option[2:]} " if option.startswith("--") else f" -s {option[1:]} ", fish)

    def test_other_shells_take_their_scripts(self) -> None:
        scripts = {shell: freeway("completion", shell).stdout for shell in ("zsh", "fish")}
        tried = 0
        for shell, arguments in (
            ("zsh", ["-fc", f"autoload -U compinit; compinit -D -d {self.folder}/dump; source $0; whence -w _freeway"]),
            ("fish", ["--no-config", "-c", "source $argv[1]; complete -C 'freeway profile c'"]),
        ):
            if shutil.which(shell) is None:
                continue
            script = self.folder / shell
            script.write_text(scripts[shell])
            done = subprocess.run(
                [shell, *arguments, str(script)], capture_output=True, text=True, timeout=60, check=True,
                cwd=self.folder, env={"HOME": str(self.folder), "PATH": os.environ["PATH"]},
            )  # fmt: skip
            self.assertEqual(done.stderr, "")
            self.assertRegex(done.stdout, "_freeway: function" if shell == "zsh" else r"^convert\t")
            tried += 1
        if tried == 0:
            self.skipTest("neither zsh nor fish is installed")


class Documentation(unittest.TestCase):
    def test_pages_say_what_the_command_says(self) -> None:
        for copy in usage.COPIES:
            text = (ROOT / copy.path).read_text()
            self.assertEqual(
                usage.written(copy, text, usage.said_by(COMMAND, copy)),
                text,
                f"{copy.path}: `python3 -m tools.lint.usage {COMMAND}`",
            )

    def test_cells_are_short(self) -> None:
        for page in ("docs/command.md", "docs/options.md"):
            rows = re.findall(r"^\|.*", (ROOT / page).read_text().replace("\\|", "/"), re.MULTILINE)
            self.assertGreater(len(rows), 10)
            for cell in (cell for row in rows for cell in row.split("|")):
                self.assertLessEqual(len(cell.split()), 25, cell)

    def test_python_knows_which_options_of_run_have_a_value_behind_them(self) -> None:
        source = (ROOT / "packaging/python/freeway/__main__.py").read_text()
        listed = set(re.findall(r'"(--[-a-z]+)"', source.partition("_WITH_VALUE = (")[2].partition(")")[0]))
        shown = re.findall(r"^  (--[-a-z]+) [A-Za-z0-9]", freeway("run", "--help").stdout, re.MULTILINE)
        lone = {"--server", "--pressure", "--require"}
        self.assertEqual(listed, set(shown) - lone)

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
        self.assertIn("(spare)", freeway("run", "--rseq=0", "--stats", "true").stderr)
        self.assertIn("(hardened)", freeway("run", "--harden", "--stats", "true").stderr)
        self.assertEqual(environment_under("--harden=0")["FREEWAY_HARDEN"], "0")
        self.assertIn("  path       spare slabs: ", freeway("run", "--rseq=0", "--stats", "true").stderr)
        self.assertEqual(environment_under("--on-error=report")["FREEWAY_ON_ERROR"], "report")

    def test_value_that_the_library_does_not_understand_is_refused(self) -> None:
        names = re.findall(r"^ +FREEWAY_(\w+)=", freeway("options").stdout, flags=re.MULTILINE)
        variables = {"--" + name.lower().replace("_", "-"): name for name in names}
        self.assertIn("--limit", variables)
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
            "default",
            "never",
            "always",
            "64m",
            ",90%",
            "1g,2g",
            "libc",
            "512k,dump=exit",
            "512k,dump=never",
        ]
        refused = 0
        for flag, variable in variables.items():
            for value in values:
                with self.subTest(flag=flag, value=value):
                    env = {"LD_PRELOAD": str(LIBRARY), f"FREEWAY_{variable}": value}
                    said = subprocess.run(
                        ["true"], env=env, cwd=self.folder, capture_output=True, text=True, check=True
                    ).stderr
                    understood = "is not understood" not in said
                    outcome = freeway("run", f"{flag}={value}", "--", "echo", "ran", cwd=str(self.folder))
                    self.assertEqual(outcome.stdout, "ran\n" if understood else "")
                    self.assertEqual(outcome.returncode, 0 if understood else WRONG_USAGE, outcome.stderr)
                    if not understood:
                        self.assertIn(f"{flag}={value} is not understood", outcome.stderr)
                        refused += 1
                    # The same value in the environment.
                    outcome = freeway(
                        "run",
                        "--",
                        "echo",
                        "ran",
                        env=ENVIRONMENT | {f"FREEWAY_{variable}": value},
                        cwd=str(self.folder),
                    )
                    self.assertEqual(outcome.returncode, 0 if understood else WRONG_USAGE, outcome.stderr)
        self.assertGreater(refused, 0)

    def test_option_without_its_value_is_refused(self) -> None:
        for flag in (
            "--stats=",
            "--harden=",
            "--guard=",
            "--on-error=",
            "--limit=",
            "--profile=",
            "--realtime=",
            "--leaks=",
        ):
            outcome = freeway("run", flag, "--", "echo", "ran")
            self.assertEqual((outcome.returncode, outcome.stdout), (WRONG_USAGE, ""), flag)

    def test_leaks_of_no_interval_are_refused(self) -> None:
        for value in ("0", "-1", "abc", "1,dump=exit", "10%"):
            outcome = freeway("run", f"--leaks={value}", "--", "echo", "ran")
            self.assertEqual((outcome.returncode, outcome.stdout), (WRONG_USAGE, ""), value)

    def test_variable_that_looks_like_an_option_is_refused(self) -> None:
        meant = {"HARDENED": "HARDEN", "GAURD": "GUARD", "HADREN": "HARDEN", "STAT": "STATS", "LIMITS": "LIMIT"}
        for name, option in (meant | {"LEVEL": "LEVELS", "PROFIL": "PROFILE"}).items():
            with self.subTest(name):
                outcome = freeway("run", "--", "echo", "ran", env=ENVIRONMENT | {f"FREEWAY_{name}": "1"})
                self.assertEqual((outcome.returncode, outcome.stdout), (WRONG_USAGE, ""))
                self.assertIn(f"FREEWAY_{name} in the environment is no option", outcome.stderr)
                self.assertIn(f"did you mean FREEWAY_{option}?", outcome.stderr)
                # As the message says.
                outcome = freeway("run", "--", "env", f"FREEWAY_{name}=1", "echo", "ran")
                self.assertEqual((outcome.returncode, outcome.stdout, outcome.stderr), (0, "ran\n", ""))

    def test_variable_that_is_like_no_option_is_named(self) -> None:
        for name in ("", "LOG_LEVEL", "harden"):
            outcome = freeway("run", "--", "echo", "ran", env=ENVIRONMENT | {f"FREEWAY_{name}": "1"})
            self.assertEqual((outcome.returncode, outcome.stdout), (0, "ran\n"))
            self.assertIn(f"FREEWAY_{name} in the environment is no option", outcome.stderr)

    def test_option_of_the_engine_with_a_wrong_value_in_the_environment_is_refused(self) -> None:
        env = ENVIRONMENT | {"FREEWAY_HEAPS": "many"}
        self.assertEqual(freeway("run", "--engine", "michael", "--", "true", env=env).returncode, WRONG_USAGE)
        self.assertEqual(freeway("run", "--", "true", env=env).returncode, 0)

    def test_each_variable_has_a_flag(self) -> None:
        for flag, variable, value in (
            ("--limit=2g", "LIMIT", "2g"),
            ("--prefault=64m", "PREFAULT", "64m"),
            ("--purge=never", "PURGE", "never"),
            ("--huge=never", "HUGE", "never"),
            ("--background", "BACKGROUND", "1"),
            # One with commas is the library's as it is; of others tests/command/profile/run_test.py tells.
            ("--profile=64k,dump=signal:USR1", "PROFILE", "64k,dump=signal:USR1"),
            ("--deepbind=1", "DEEPBIND", "1"),
        ):
            self.assertEqual(environment_under(flag, cwd=str(self.folder))[f"FREEWAY_{variable}"], value)
        self.assertEqual(environment_under("--limit", "2g")["FREEWAY_LIMIT"], "2g")
        self.assertEqual(environment_under("--limit", "2g", "--limit=1g")["FREEWAY_LIMIT"], "1g")
        self.assertEqual(
            environment_under("--huge=never", env=ENVIRONMENT | {"FREEWAY_HUGE": "always"})["FREEWAY_HUGE"], "never"
        )

    def test_presets_yield_to_what_is_said(self) -> None:
        names = {"BACKGROUND", "LIMIT", "PREFAULT", "PURGE"}

        def set_by(*options: str, **variables: str) -> dict[str, str]:
            env = ENVIRONMENT | {f"FREEWAY_{name}": value for name, value in variables.items()}
            under = environment_under(*options, env=env)
            return {name: under[f"FREEWAY_{name}"] for name in names if under.get(f"FREEWAY_{name}")}

        self.assertEqual(set_by(), {})
        self.assertEqual(set_by("--server"), {"BACKGROUND": "1", "LIMIT": ",90%"})
        self.assertEqual(set_by("--server", "--limit=1g"), {"BACKGROUND": "1", "LIMIT": "1g"})
        self.assertEqual(set_by("--background=0", "--server", LIMIT="2g"), {"BACKGROUND": "0", "LIMIT": "2g"})
        self.assertEqual(set_by("--realtime"), {"PREFAULT": "64m", "PURGE": "never"})
        self.assertEqual(set_by("--realtime=1m", PURGE=""), {"PREFAULT": "1m", "PURGE": "never"})
        self.assertEqual(set_by("--realtime=1m", PREFAULT="2m"), {"PREFAULT": "2m", "PURGE": "never"})
        self.assertEqual(freeway("run", "--realtime=x", "true").returncode, WRONG_USAGE)

    def test_variable_that_is_an_option_is_not_named(self) -> None:
        names = re.findall(r"^ +FREEWAY_(\w+)=", freeway("options").stdout, flags=re.MULTILINE)
        self.assertIn("HARDEN", names)
        for name in [*names, "HEAPS", "LEVELS_PER_WORD", "NO_INSTALL", "BUILD_DIR", "TEST_SEED"]:
            with self.subTest(name):
                outcome = freeway("run", "--", "true", env=ENVIRONMENT | {f"FREEWAY_{name}": ""})
                self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
        self.assertEqual(
            freeway("run", "--", "true", env=ENVIRONMENT | {"FREEWAYS": "1", "MY_FREEWAY_X": "1"}).stderr, ""
        )

    def test_report_names_its_process(self) -> None:
        outcome = freeway("run", "--stats", "--", "perl", "-e", "print $$")
        self.assertRegex(outcome.stderr, rf"{SUMMARY} \(\w+\) in perl, process {outcome.stdout}; sizes")

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
            self.assertEqual((outcome.returncode, len(outcome.stderr.splitlines())), (WRONG_USAGE, 1), outcome.stderr)
            self.assertIn("streamflow", outcome.stderr)

    def test_wrong_option_of_an_engine_is_one_line_and_status_2(self) -> None:
        for engine, setting in WRONG_SETTINGS:
            outcome = freeway("run", "--engine", engine, "--set", setting, "--", "true")
            self.assertEqual((outcome.returncode, len(outcome.stderr.splitlines())), (WRONG_USAGE, 1), setting)
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
        self.assertEqual(outcome.returncode, NOT_PRELOADED)
        self.assertIn("FREEWAY_LIB", outcome.stderr)
        self.assertIn(f"{self.folder}/lib/libfreeway.so.0", outcome.stderr)

    def test_variable_that_names_nothing(self) -> None:
        outcome = freeway("run", "true", env={"FREEWAY_LIB": "/no/such/library"})
        self.assertEqual(outcome.returncode, NOT_PRELOADED)
        self.assertIn("/no/such/library", outcome.stderr)

    def test_path_that_cannot_be_preloaded(self) -> None:
        command = self.installed("a folder/freeway", "a folder/libfreeway.so.0")
        outcome = freeway("run", "true", command=command, env={})
        self.assertEqual(outcome.returncode, NOT_PRELOADED)
        self.assertIn("space or colon", outcome.stderr)


class WhatCannotBePreloaded(InAFolder):
    def assert_refused(self, program: str, why: str) -> None:
        outcome = freeway("run", "--", program)
        self.assertEqual(outcome.returncode, NOT_PRELOADED, outcome.stderr)
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
