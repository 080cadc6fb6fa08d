# SPDX-License-Identifier: MIT
"""Whatever lies where the library writes a file: nothing of another user's is followed, filled or waited for.

outputs_test.py PROGRAM: program.c. WRITERS has every place in the sources that opens a file for writing; one that is
not in it fails this test. What each should do is in src/os/output_file.h. Files of other users are made by root only:
there the programs run as another user, in folders where the kernel protects nobody.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The build folder may be its owner's alone: other users run copies.
COPIES = tempfile.TemporaryDirectory(prefix="freeway-outputs-")
Path(COPIES.name).chmod(0o755)
PROGRAM, LIBRARY, JEMALLOC, COMMAND = (
    shutil.copy(path, COPIES.name)
    for path in (sys.argv.pop(1), *(os.environ[f"FREEWAY_{name}"] for name in ("LIB", "JEMALLOC", "COMMAND")))
)
os.environ["FREEWAY_LIB"] = LIBRARY
SOURCES = Path(os.environ["FREEWAY_SOURCE_DIR"])

ONE_USER, ANOTHER = 65534, 65533
BEFORE = "what was there before\n"
BY_DUMPS, BY_STATISTICS = "heap profile: ", re.compile(r"\{\"schema\"|freeway: what the heap did")


@dataclass
class Writer:
    """What makes the library, or the command, write a file."""

    source: str  # where it is opened
    begins: str | re.Pattern[str]  # how the file begins
    name: str  # of the file; {pid}, {n}: the process's number, that of a file with a fresh name
    fresh: bool = False
    first: int = 1  # {n} of the first file; of later ones one more
    private: bool = True  # a new file is its owner's alone
    environment: Callable[[Path], dict[str, str]] = lambda folder: {}
    command: Callable[[Path], list[str]] = lambda folder: [PROGRAM]
    # Instead of the program's end.
    meanwhile: Callable[[Path, int], list[str]] | None = None

    def path(self, folder: Path, pid: int, number: int = 0) -> Path:
        return folder / self.name.format(pid=pid, n=self.first + number)


def preloaded(*libraries: str, **others: str) -> dict[str, str]:
    return {"LD_PRELOAD": ":".join(libraries), **others}


WRITERS = {
    "a dump at exit": Writer(
        "src/profile/dumps.cc",
        BY_DUMPS,
        "a.{pid}.{n}.heap",
        fresh=True,
        environment=lambda folder: preloaded(LIBRARY, FREEWAY_PROFILE=f"1,prefix={folder}/a"),
    ),
    "statistics as JSON": Writer(
        "src/look/summary.cc",
        BY_STATISTICS,
        "statistics.{pid}",
        private=False,
        environment=lambda folder: preloaded(LIBRARY, FREEWAY_STATS=f"json:{folder}/statistics.%p"),
    ),
    "statistics as text": Writer(
        "src/look/summary.cc",
        BY_STATISTICS,
        "statistics",
        private=False,
        environment=lambda folder: preloaded(LIBRARY, FREEWAY_STATS=f"text:{folder}/statistics"),
    ),
    "prof.dump without a name": Writer(
        "compat/jemalloc/profile.cc",
        BY_DUMPS,
        "jeprof.{pid}.{n}.m{n}.heap",
        fresh=True,
        first=0,
        environment=lambda folder: preloaded(JEMALLOC, LIBRARY),
        command=lambda folder: [PROGRAM, ""],
    ),
    "prof.dump with a name": Writer(
        "compat/jemalloc/profile.cc",
        BY_DUMPS,
        "dump",
        environment=lambda folder: preloaded(JEMALLOC, LIBRARY),
        command=lambda folder: [PROGRAM, f"{folder}/dump"],
    ),
    "run --leaks-dump": Writer(
        "command/heap/dump_text.cc",
        BY_DUMPS,
        "lost.{pid}.heap",
        fresh=True,
        command=lambda folder: [COMMAND, "run", "--leaks", f"--leaks-dump={folder}/lost", "--", PROGRAM],
    ),
    "leaks -o": Writer(
        "command/heap/dump_text.cc",
        BY_DUMPS,
        "lost",
        environment=lambda folder: preloaded(LIBRARY, FREEWAY_PROFILE="1,dump=signal:USR1"),
        meanwhile=lambda folder, pid: [COMMAND, "leaks", str(pid), "-o", f"{folder}/lost"],
    ),
}
# What else opens files for writing. Names on the command's line are the user's, as those of every other command.
OTHERS = {
    "src/os/output_file.cc": "the ways in which the others open theirs",
    "src/os/output_file.h": "create_first",
    "shared/file.cc": "the file of a descriptor of the program's, again: by /proc/self/fd",
    "src/background/confinement.cc": "what the helper thread may ask the kernel for",
    "command/map.cc": "-o FILE",
    "command/pressure.cc": "what the kernel, or systemd, has there: MEMORY_PRESSURE_WATCH",
    "command/profile.cc": "profiles that it reads, and /dev/null",
    "command/profile/main.cc": "-o FILE",
}


def as_user(user: int | None) -> dict[str, Any]:
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


@dataclass
class Run:
    """A program that has said its number and waits."""

    writer: Writer
    folder: Path
    process: subprocess.Popen[str]
    pid: int
    user: int | None
    said: str = field(default="", init=False)

    @property
    def path(self) -> Path:
        return self.writer.path(self.folder, self.pid)

    def fresh_path(self) -> Path:
        """Of the file that is written where something lies at `path`."""
        if self.writer.name == "lost.{pid}.heap":
            return self.folder / f"lost.{self.pid}.2.heap"
        return self.writer.path(self.folder, self.pid, 1)

    def go_on(self) -> None:
        if self.writer.meanwhile is not None:
            done = subprocess.run(
                self.writer.meanwhile(self.folder, self.pid),
                capture_output=True,
                text=True,
                timeout=60,
                **as_user(self.user),
                check=False,
            )
            self.said = done.stderr
        self.said += self.process.communicate("\n", timeout=60)[1]


def with_each(user: int | None = None) -> Callable[[Callable[[Outputs, Run], None]], Callable[[Outputs], None]]:
    """A test of each writer, which the given user runs."""

    def decorate(check: Callable[[Outputs, Run], None]) -> Callable[[Outputs], None]:
        def test(self: Outputs) -> None:
            if user is not None and os.geteuid() != 0:
                self.skipTest("only root makes files of other users")
            for name, writer in WRITERS.items():
                with self.subTest(name), self.started(writer, user) as run:
                    check(self, run)

        return test

    return decorate


class Outputs(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.place.chmod(0o755)
        self.count = 0

    @contextmanager
    def started(self, writer: Writer, user: int | None = None) -> Iterator[Run]:
        self.count += 1
        folder = self.place / str(self.count)
        folder.mkdir()
        folder.chmod(0o777)  # and not sticky: nothing is forbidden
        process = subprocess.Popen(
            writer.command(folder),
            env={**os.environ, **writer.environment(folder)},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **as_user(user),
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            yield Run(writer, folder, process, int(process.stdout.readline() or 0), user)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def expect_written(self, run: Run, path: Path) -> None:
        self.assertTrue(path.exists(), run.said)
        self.assertRegex(path.read_text(), re.compile(run.writer.begins))

    def expect_new(self, run: Run, path: Path) -> None:
        self.expect_written(run, path)
        found = path.lstat()
        self.assertTrue(stat.S_ISREG(found.st_mode))
        self.assertEqual(
            found.st_mode & 0o077 & (0o077 if run.writer.private else 0o022), 0, "others have no business there"
        )
        self.assertEqual(found.st_uid, run.user or os.geteuid())

    def expect_avoided(self, run: Run, what: str) -> None:
        """What lies at the path is left alone: a fresh name is another one, a chosen one is complained of."""
        if run.writer.fresh:
            self.expect_new(run, run.fresh_path())
            self.assertNotIn("cannot", run.said)
        else:
            self.assertRegex(run.said, "cannot (be )?writ|cannot be written", what)
        self.assertEqual(run.process.returncode, 0, run.said)

    # --- Without another user ---------------------------------------------------------------------------------------

    @with_each()
    def test_nothing_there(self, run: Run) -> None:
        run.go_on()
        self.expect_new(run, run.path)
        self.assertNotIn("cannot", run.said)

    @with_each()
    def test_own_file_is_written_over_if_it_was_chosen(self, run: Run) -> None:
        run.path.write_text(BEFORE * 10000)
        run.go_on()
        if run.writer.fresh:
            self.assertEqual(run.path.read_text(), BEFORE * 10000)
            self.expect_new(run, run.fresh_path())
        else:
            self.expect_written(run, run.path)
            self.assertNotIn(BEFORE, run.path.read_text())

    @with_each()
    def test_own_link_is_followed_if_it_was_chosen(self, run: Run) -> None:
        target = run.folder / "target"
        target.write_text(BEFORE)
        run.path.symlink_to("target")
        run.go_on()
        if run.writer.fresh:
            self.expect_avoided(run, "a link")
            self.assertEqual(target.read_text(), BEFORE)
        else:
            self.expect_written(run, target)
            self.assertNotIn(BEFORE, target.read_text())
        self.assertTrue(run.path.is_symlink())

    @with_each()
    def test_own_link_to_nothing(self, run: Run) -> None:
        run.path.symlink_to("target")
        run.go_on()
        if run.writer.fresh:
            self.expect_avoided(run, "a link")
            self.assertFalse((run.folder / "target").exists())
        else:
            self.expect_new(run, run.folder / "target")

    @with_each()
    def test_another_name_of_an_own_file(self, run: Run) -> None:
        target = run.folder / "target"
        target.write_text(BEFORE)
        run.path.hardlink_to(target)
        run.go_on()
        self.expect_avoided(run, "a second name")
        self.assertEqual(target.read_text(), BEFORE)

    @with_each()
    def test_pipe_that_nobody_reads(self, run: Run) -> None:
        os.mkfifo(run.path, 0o666)
        run.go_on()
        self.expect_avoided(run, "a pipe")
        self.assertTrue(run.path.is_fifo())

    @with_each()
    def test_own_pipe_that_somebody_reads(self, run: Run) -> None:
        os.mkfifo(run.path, 0o600)
        reader = os.open(run.path, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        run.go_on()
        if run.writer.fresh:
            self.expect_avoided(run, "a pipe")
            self.assertRaises(BlockingIOError, os.read, reader, 1)
        else:
            self.assertRegex(os.read(reader, 65536).decode(), re.compile(run.writer.begins))

    @with_each()
    def test_folder(self, run: Run) -> None:
        run.path.mkdir()
        run.go_on()
        self.expect_avoided(run, "a folder")
        self.assertEqual(list(run.path.iterdir()), [])

    def test_what_the_process_has_open(self) -> None:
        for path in ("/dev/stderr", "/proc/self/fd/2"):
            with self.subTest(path):
                said = subprocess.run(
                    [PROGRAM],
                    env={**os.environ, **preloaded(LIBRARY, FREEWAY_STATS=f"text:{path}")},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=60,
                ).stderr
                self.assertRegex(said, "^freeway: what the heap did")

    def test_standard_error_in_a_file_is_continued(self) -> None:
        log = self.place / "log"
        with log.open("w") as file:
            file.write(BEFORE)
            file.flush()
            environment = {**os.environ, **preloaded(LIBRARY, FREEWAY_STATS="text:/dev/stderr")}
            subprocess.run(
                [PROGRAM],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                check=True,
                timeout=60,
            )
        self.assertRegex(log.read_text(), f"^{BEFORE}freeway: what the heap did")

    # --- Beside another user ----------------------------------------------------------------------------------------

    def of_another(self, path: Path) -> None:
        os.lchown(path, ANOTHER, ANOTHER)

    @with_each(ONE_USER)
    def test_file_of_another(self, run: Run) -> None:
        run.path.write_text(BEFORE)
        run.path.chmod(0o666)
        self.of_another(run.path)
        run.go_on()
        self.expect_avoided(run, "another's file")
        self.assertEqual(run.path.read_text(), BEFORE)

    @with_each(ONE_USER)
    def test_link_of_another(self, run: Run) -> None:
        target = run.folder / "target"
        target.write_text(BEFORE)
        os.chown(target, ONE_USER, ONE_USER)
        run.path.symlink_to("target")
        self.of_another(run.path)
        run.go_on()
        self.expect_avoided(run, "another's link")
        self.assertEqual(target.read_text(), BEFORE)

    @with_each(ONE_USER)
    def test_link_of_another_to_nothing(self, run: Run) -> None:
        run.path.symlink_to("target")
        self.of_another(run.path)
        run.go_on()
        self.expect_avoided(run, "another's link")
        self.assertFalse((run.folder / "target").exists())

    @with_each(ONE_USER)
    def test_pipe_of_another(self, run: Run) -> None:
        os.mkfifo(run.path)
        run.path.chmod(0o666)
        self.of_another(run.path)
        reader = os.open(run.path, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        run.go_on()
        self.expect_avoided(run, "another's pipe")
        self.assertRaises(BlockingIOError, os.read, reader, 1)


_WRITES = re.compile(
    r"\bO_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b|\bofstream\b|\bfopen\s*\(|\bcreat\s*\(|\bmkostemp|\bmkstemp"
)
_READS = re.compile(r"\bO_(?:RDONLY|PATH)\b")
_OPENS = re.compile(
    r"\bSYS_(?:open|openat|openat2|creat)\b[^;]*;|(?<![.\w>:])(?:std::|::)?(?:open|open64|openat)\s*\([^;{]*;",
    re.DOTALL,
)
_CALLS = re.compile(r"\b(?:open_chosen|create_first)\s*\(|output_file::create\s*\(")
_TO_READ = re.compile(r"\bfopen\s*\([^;]*\"rb?e?\"")


def openers(root: Path) -> set[str]:
    """The files of src, shared, compat and command in which something is opened that may be written to."""
    found = set()
    for folder in ("src", "shared", "compat", "command"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".cc", ".h", ".S"} or {"tests", "example"} & set(path.relative_to(root).parts):
                continue
            text = re.sub(r"//[^\n]*", "", path.read_text())
            text = _TO_READ.sub("", text)
            opens = [each for each in _OPENS.findall(text) if not _READS.search(each)]
            system_calls = [each for each in opens if "SYS_" in each]
            if _WRITES.search(text) or _CALLS.search(text) or system_calls:
                found.add(str(path.relative_to(root)))
    return found


class Sources(unittest.TestCase):
    def test_every_open_is_tried(self) -> None:
        self.assertEqual(openers(SOURCES), {each.source for each in WRITERS.values()} | OTHERS.keys())

    def test_an_open_would_be_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "src" / "one.cc"
            source.parent.mkdir()
            for text, is_found in {
                "raw_syscall(SYS_openat, here, path,\n  O_WRONLY | O_CREAT, 0600);": True,
                "raw_syscall(SYS_openat, here, path, 0x41, 0600);": True,
                "raw_syscall(SYS_openat, here, path, O_RDONLY | O_CLOEXEC);": False,
                "int fd = open(path, O_RDWR);": True,
                'std::fopen(path.c_str(), "wb");': True,
                'std::fopen(path.c_str(), "rb");': False,
                "std::ofstream file(path);": True,
                "const long fd = output_file::open_chosen(path, 0600);": True,
                "// O_WRONLY": False,
            }.items():
                with self.subTest(text):
                    source.write_text(text + "\n")
                    self.assertEqual(openers(Path(folder)), {"src/one.cc"} if is_found else set())


if __name__ == "__main__":
    unittest.main()
