# SPDX-License-Identifier: MIT
#
# jobs.py: the programs that `make run` shows: a server, an interpreter, a compiler.
"""The jobs of the demonstration."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from demo.measure import ROOT, DemoError, Malloc, Usage, environment, measure, measured_server

START_TIMEOUT_S = 30
REDIS_REQUESTS = 60_000
REDIS_KEYS = 100_000


@dataclass(frozen=True)
class Job:
    """A name for the table, what is done, and a function that does it once in an empty folder."""

    name: str
    what: str
    run: Callable[[Malloc, Path], Usage]


def program(name: str) -> str:
    """The path of a program; Debian's own before any other."""
    path = shutil.which(name, path="/usr/bin:/bin") or shutil.which(name)
    if path is None:
        raise DemoError(f"{name} is not installed; `make run` installs it (scripts/install-packages run)")
    return path


def wait_for_socket(socket: Path, server: subprocess.Popen[str]) -> None:
    """Returns when the server listens."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            raise DemoError("redis-server did not start")
        time.sleep(0.01)


def redis(malloc: Malloc, folder: Path) -> Usage:
    """redis-server answers redis-benchmark. Wall time is the benchmark's; CPU time and memory are the server's."""
    socket = folder / "socket"
    argv = [program("redis-server"), "--port", "0", "--unixsocket", str(socket), "--dir", str(folder), "--save", ""]
    load = [program("redis-benchmark"), "-s", str(socket), "-q", "-n", str(REDIS_REQUESTS), "-r", str(REDIS_KEYS)]
    load += ["-P", "16", "-c", "20"]
    parts = [["-d", "200", "-t", "set,get,incr,lpush,lpop,sadd,hset,spop,zadd,mset"], ["-d", "3000", "-t", "set,get"]]
    with (folder / "stderr").open("w") as errors:
        variables = {"FREEWAY_STATS": "1"}
        with measured_server(malloc, argv, env=variables, cwd=folder, errors=errors) as server:
            wait_for_socket(socket, server.process)
            began = time.monotonic()
            for part in parts:
                # The client runs on plain glibc both times: only the server is compared.
                done = subprocess.run([*load, *part], env=environment({}), capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    raise DemoError(f"redis-benchmark failed: {done.stdout}{done.stderr}")
            wall = time.monotonic() - began
    if server.usage is None or server.usage.status != 0:
        raise DemoError(f"redis-server failed under {malloc.name}: {(folder / 'stderr').read_text()[-2000:]}")
    return replace(server.usage, wall=wall)


def python(malloc: Malloc, folder: Path) -> Usage:
    """Python with its own allocator for small objects in front of malloc: big objects only."""
    return measure(malloc, [program("python3"), str(ROOT / "scripts/demo/python_job.py")], cwd=folder)


def python_malloc(malloc: Malloc, folder: Path) -> Usage:
    """Python with every object from malloc."""
    argv = [program("python3"), str(ROOT / "scripts/demo/python_job.py")]
    return measure(malloc, argv, env={"PYTHONMALLOC": "malloc"}, cwd=folder)


def gxx(malloc: Malloc, folder: Path) -> Usage:
    """Compiles and links a C++20 file."""
    source = ROOT / "tests/whole/programs/sources/compile_me.cc"
    argv = [program("g++"), "-std=c++20", "-O0", "-pthread", str(source), "-o", "compiled"]
    return measure(malloc, argv, cwd=folder)


JOBS = (
    Job("redis-server", "redis-benchmark on a unix socket", redis),
    Job("python3", "parse, group, sort, print", python),
    Job("python3, PYTHONMALLOC=malloc", "the same, every object from malloc", python_malloc),
    Job("g++", "compile and link a C++20 file", gxx),
)
