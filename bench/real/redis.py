# SPDX-License-Identifier: MIT
#
# redis.py: redis-server answers redis-benchmark on a unix socket, first small values with ten commands, then big
# ones. CPU time and memory are the server's; wall time is the benchmark's, which runs on the malloc it has by itself.
# One operation is one request.
#
# Checksum: redis-benchmark chooses keys by the time of day, so the contents after it mean nothing; what is in the
# server after a fixed load of every type of value does, and redis computes a digest of it. Debian's redis is linked
# with jemalloc: the harness preloads libc.so.6 for glibc.
"""redis-server under redis-benchmark."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from driver import arguments, digest, environment, fail, program, report, scaled, server

REQUESTS = 100_000  # of each command
KEYS = 100_000
SMALL = ("set", "get", "incr", "lpush", "lpop", "sadd", "hset", "spop", "zadd", "mset")
BIG = ("set", "get")
START_TIMEOUT_S = 30


def client(argv: list[str], text: str = "") -> str:
    """What a client prints. Only the server runs under the allocator."""
    done = subprocess.run(argv, env=plain(), input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(argv)}: {done.stdout}{done.stderr}")
    return done.stdout


def plain() -> dict[str, str]:
    """The environment without what is for the measured program only."""
    return {k: v for k, v in environment().items() if k not in ("LD_DEBUG", "LD_DEBUG_OUTPUT", "LD_BIND_NOW")}


def wait_for(socket: Path, cli: list[str]) -> None:
    """Returns when the server answers."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if socket.exists() and subprocess.run([*cli, "ping"], env=plain(), capture_output=True, check=False).stdout:
            return
        time.sleep(0.01)
    fail("redis-server did not start")


def fixed_load(shrink: int) -> str:
    """Commands that leave the same data every time."""
    lines = ["flushall"]
    for i in range(scaled(5000, shrink)):
        lines += [f"set key:{i} {'v' * (i % 700)}{i}", f"hset hash:{i % 50} field:{i} {i * i}"]
        lines += [f"zadd sorted:{i % 20} {i} member:{i}", f"sadd set:{i % 30} {i}", f"rpush list:{i % 40} item:{i}"]
        if i % 3 == 0:
            lines += [f"del key:{i // 2}", f"append key:{i} {'x' * (i % 90)}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Starts, loads, measures, checks."""
    options = arguments(__doc__)
    server_path = program("redis-server", "redis-server")
    benchmark = program("redis-benchmark", "redis-tools")
    requests, keys = scaled(REQUESTS, options.shrink), scaled(KEYS, options.shrink)
    with tempfile.TemporaryDirectory(prefix="redis-") as name:  # a socket's path must be short
        socket = Path(name) / "socket"
        cli = [program("redis-cli", "redis-tools"), "-s", str(socket)]
        argv = [server_path, "--port", "0", "--unixsocket", str(socket), "--dir", name, "--save", ""]
        with server([*argv, "--enable-debug-command", "local"]) as used:
            wait_for(socket, cli)
            load = [benchmark, "-s", str(socket), "-q", "-n", str(requests), "-r", str(keys), "-P", "16", "-c", "20"]
            began = time.monotonic()
            client([*load, "-d", "200", "-t", ",".join(SMALL)])
            client([*load, "-d", "3000", "-t", ",".join(BIG)])
            seconds = time.monotonic() - began
            client(cli, fixed_load(options.shrink))
            contents = client([*cli, "debug", "digest"])
    total = requests * (len(SMALL) + len(BIG))
    used.values["wall_s"] = seconds
    report(ops=total, used=used, checksum=digest(contents), requests_per_s=total / seconds)


if __name__ == "__main__":
    main()
