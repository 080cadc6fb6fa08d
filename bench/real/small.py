# SPDX-License-Identifier: MIT
#
# small.py: programs that do little: their memory at its peak is the C library's, their own, and what the allocator
# adds. One operation is one run. Checksum: what the program prints.
"""Small programs, once each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from driver import arguments, environment, fail, program, report, run, scaled
from harness.real_program import command_line

FILES = 300
ROWS = 20_000
NO_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def hello(_: int) -> tuple[list[str], str]:
    """A program that prints one line: the laboratory's own, beside measured_run."""
    path = Path(command_line([], Path())[0]).parent / "workloads/hello"
    if not path.exists():
        fail(f"there is no {path}: it is the CMake target workload_hello")
    return [str(path)], ""


def tree(shrink: int) -> Path:
    """A folder with files."""
    folder = Path("tree")
    for number in range(scaled(FILES, shrink)):
        path = folder / f"folder{number % 10}/file{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * 10)
        os.utime(path, (1_100_000_000, 1_100_000_000))
    return folder


def ls(shrink: int) -> tuple[list[str], str]:
    """ls -l of all folders."""
    return [program("ls", "coreutils"), "-l", *map(str, sorted(tree(shrink).iterdir()))], ""


def git(shrink: int) -> tuple[list[str], str]:
    """git status of a repository in which nothing is committed yet."""
    path, folder = program("git", "git"), tree(shrink)
    for words in (["init", "-q", "-b", "main"], ["add", "."]):
        subprocess.run([path, *words], cwd=folder, env={**environment(), **NO_SETTINGS}, check=True)
    return [path, "-C", str(folder), "status", "--short"], ""


def python(_: int) -> tuple[list[str], str]:
    """python3 that does nothing, without what the user has installed."""
    return [program("python3", "python3"), "-I", "-c", "pass"], ""


def bash(_: int) -> tuple[list[str], str]:
    """A shell that forks five times."""
    return [program("bash", "bash"), "-c", "for i in 1 2 3 4 5; do (echo $i); done"], ""


def sqlite(shrink: int) -> tuple[list[str], str]:
    """A table in memory, with an index."""
    rows = scaled(ROWS, shrink)
    script = (
        "create table t(id integer primary key, name text, amount real);"
        f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows}) "
        "insert into t select i, 'name' || (i * 7919 % 10007), (i * 37 % 10000) / 100.0 from n;"
        "create index by_name on t(name);"
        "select name, count(*), sum(amount) from t group by name order by 3 desc limit 20;"
    )
    return [program("sqlite3", "sqlite3"), ":memory:"], script


PROGRAMS: dict[str, Callable[[int], tuple[list[str], str]]] = {
    each.__name__: each for each in (hello, ls, git, python, bash, sqlite)
}


def main() -> None:
    """Prepares, runs."""
    options = arguments(__doc__, program=tuple(PROGRAMS))
    argv, script = PROGRAMS[options.program](options.shrink)
    used = run(argv, env={**NO_SETTINGS, "LC_ALL": "C.UTF-8", "TZ": "UTC"}, input_text=script)
    report(ops=1, used=used, checksum=used.stdout_digest())


if __name__ == "__main__":
    main()
