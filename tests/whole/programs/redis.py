# SPDX-License-Identifier: MIT
#
# redis-server under the preload: loaded with a fixed data set, hammered by redis-benchmark, snapshotted by a forked
# child (BGSAVE, BGREWRITEAOF) while the benchmark goes on, killed and restarted from the files. After each restart the
# digest of all keys must be what it was, and what it is without the preload.
#
# Debian's redis-server is linked with jemalloc; prove_preload shows that the preloaded malloc wins all the same.
"""redis: benchmark and persistence under the preload."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from preload import Failed, check, environment, in_maps, main, need, prove_preload, require_same, succeed

WAIT_S = 60
BENCHMARK = "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset"


def data_set(keys: int) -> str:
    """Commands that make `keys` keys of all types, the same every time."""
    source = random.Random(2004)
    lines = []
    for i in range(keys):
        text = "".join(source.choices("abcdefghij", k=source.randint(1, 400)))
        lines.append(f"SET string:{i} {text}")
        lines.append(f"HSET hash:{i % (keys // 8 + 1)} f{i} {text[:64]} g{i} {i}")
        lines.append(f"RPUSH list:{i % 97} {text[:32]}")
        lines.append(f"ZADD zset:{i % 31} {source.randint(0, 10**6)} member{i}")
        lines.append(f"SADD set:{i % 61} {source.getrandbits(40)} {i}")
        if i % 3 == 0:
            lines.append(f"APPEND string:{source.randint(0, i)} {text}")
        if i % 7 == 0:
            lines.append(f"DEL string:{source.randint(0, i)}")
    return "\n".join(lines) + "\n"


class Server:
    """A redis-server on a unix socket in `folder`, and the commands to talk to it under the same preload."""

    def __init__(self, folder: Path, preload: bool, *options: str) -> None:
        self.folder, self.preload = folder, preload
        self.socket = folder / "socket"
        argv = [need("redis-server", "redis-server"), "--port", "0", "--unixsocket", str(self.socket)]
        argv += ["--dir", str(folder), "--logfile", str(folder / "log"), "--save", "", "--enable-debug-command", "yes"]
        variables = environment(preload)
        self.process = subprocess.Popen([*argv, *options], env=variables, cwd=folder, stderr=subprocess.DEVNULL)
        self.wait_for("the server to answer", self.answers)
        if preload:
            check(in_maps(self.process.pid), "redis-server does not have the library mapped")

    def answers(self) -> bool:
        if self.process.poll() is not None:
            raise Failed(f"redis-server ended ({self.process.returncode})\n{(self.folder / 'log').read_text()[-3000:]}")
        return self.socket.exists() and self.command("PING") == "PONG"

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits until holds() is true; gives up after WAIT_S."""
        deadline = time.monotonic() + WAIT_S
        while not holds():
            check(time.monotonic() < deadline, f"waited {WAIT_S} s for {what}")
            time.sleep(0.02)

    def command(self, *words: str, stdin: str = "") -> str:
        """One command through redis-cli; its answer."""
        argv = [need("redis-cli", "redis-tools"), "-s", str(self.socket), *words]
        return succeed(argv, preload=self.preload, stdin=stdin).out.strip()

    def info(self, name: str) -> str:
        lines = dict(line.split(":", 1) for line in self.command("INFO").splitlines() if ":" in line)
        return lines[name].strip()

    def digest(self) -> str:
        """A checksum of all keys and values, and their number."""
        return f"{self.command('DEBUG', 'DIGEST')} {self.command('DBSIZE')} keys"

    def benchmark(self, requests: int) -> subprocess.Popen[bytes]:
        """Starts redis-benchmark: 20 connections, all kinds of commands."""
        argv = [need("redis-benchmark", "redis-tools"), "-s", str(self.socket), "-q", "-t", BENCHMARK, "-r", "5000"]
        argv += ["-n", str(requests), "-c", "20", "-d", "120", "-P", "8"]
        return subprocess.Popen(argv, env=environment(self.preload), stdout=subprocess.DEVNULL)

    def background(self, command: str, flag: str, status: str) -> None:
        """A command that forks a child, waited for; its status must be ok."""
        self.command(command)
        self.wait_for(command, lambda: self.info(flag) == "0")
        check(self.info(status) == "ok", f"{command}: {status} is {self.info(status)}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)


@contextlib.contextmanager
def serving(folder: Path, preload: bool, *options: str) -> Iterator[Server]:
    """A server that is killed (SIGKILL: it gets no chance to save) at the end."""
    server = Server(folder, preload, *options)
    try:
        yield server
    finally:
        server.kill()


def life(folder: Path, preload: bool, keys: int, requests: int) -> str:
    """A server's life: load, persist under load, die, come back twice. Returns the digest after the load."""
    folder.mkdir()
    with serving(folder, preload) as server:
        answer = server.command("--pipe", stdin=data_set(keys))
        check("errors: 0" in answer, f"loading: {answer}")
        loaded = server.digest()
        benchmark = server.benchmark(requests)
        while benchmark.poll() is None:
            server.background("BGSAVE", "rdb_bgsave_in_progress", "rdb_last_bgsave_status")
        check(benchmark.returncode == 0, f"redis-benchmark: exit status {benchmark.returncode}")
        server.background("BGSAVE", "rdb_bgsave_in_progress", "rdb_last_bgsave_status")
        before = server.digest()
    with serving(folder, preload) as server:
        require_same("the digest after a restart from the snapshot", before, server.digest())
        server.command("CONFIG", "SET", "appendonly", "yes")
        server.wait_for("the first rewrite", lambda: server.info("aof_rewrite_in_progress") == "0")
        server.background("BGREWRITEAOF", "aof_rewrite_in_progress", "aof_last_bgrewrite_status")
        for i in range(50):
            server.command("SET", f"after:{i}", "x" * i)
        before = server.digest()
    with serving(folder, preload, "--appendonly", "yes") as server:
        require_same("the digest after a restart from the append-only file", before, server.digest())
        server.command("MEMORY", "PURGE")
        server.command("FLUSHALL")
        check(server.command("DBSIZE") == "0", "FLUSHALL left keys behind")
        # A polite end: the exit handlers run too.
        server.process.send_signal(signal.SIGTERM)
        check(server.process.wait(WAIT_S) == 0, f"redis-server ended with {server.process.returncode} on SIGTERM")
    return loaded


def redis(folder: Path) -> None:
    """The same life without and with the preload."""
    for program in ("redis-server", "redis-cli", "redis-benchmark"):
        prove_preload([need(program, "redis-server" if program == "redis-server" else "redis-tools"), "--version"])
    scale = 10 if "long" in sys.argv[1:] else 1
    plain, preloaded = (life(folder / str(preload), preload, 3000 * scale, 20_000 * scale) for preload in (False, True))
    require_same("the digest of the same data set", plain, preloaded)


if __name__ == "__main__":
    os.umask(0o077)
    main(redis)
