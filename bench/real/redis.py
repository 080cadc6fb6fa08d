# SPDX-License-Identifier: MIT
#
# redis.py: redis-server answers redis-benchmark on a unix socket, first small values with ten commands, then big
# ones. CPU time and memory are the server's; wall time is the benchmark's, which runs on the malloc it has by itself.
# One operation is one request.
#
# Checksum: redis-benchmark chooses keys by the time of day, so the contents after it mean nothing; what is in the
# server after a fixed load of every type of value does, and redis computes a digest of it. Debian's redis is linked
# with jemalloc: the harness preloads libc.so.6 for glibc.
#
# --work churn: a million values, of which three in four are deleted at random; then fewer, larger ones. What is
# resident after each step, and some seconds after the deletions. One operation is one key made or deleted.
"""redis-server under redis-benchmark, or while its keys come and go."""

from __future__ import annotations

import random
import re
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
CHURNED, REFILLED = 1_000_000, 400_000  # keys
REST_S = 10


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


def benchmark(cli: list[str], socket: Path, shrink: int) -> tuple[float, dict[str, float]]:
    """Requests of all kinds; how many there were, and how many a second."""
    requests, keys = scaled(REQUESTS, shrink), scaled(KEYS, shrink)
    load = [program("redis-benchmark", "redis-tools"), "-s", str(socket), "-q", "-n", str(requests), "-r", str(keys)]
    load += ["-P", "16", "-c", "20"]
    began = time.monotonic()
    client([*load, "-d", "200", "-t", ",".join(SMALL)])
    client([*load, "-d", "3000", "-t", ",".join(BIG)])
    seconds = time.monotonic() - began
    client(cli, fixed_load(shrink))
    total = requests * (len(SMALL) + len(BIG))
    return total, {"wall_s": seconds, "requests_per_s": total / seconds}


def resident_kib(cli: list[str]) -> float:
    """The server's resident memory; its own clock looks every 0.1 s."""
    time.sleep(0.3)
    process = re.search(r"process_id:(\d+)", client([*cli, "info", "server"]))
    if process is None:
        fail("redis does not say which process it is")
    return float(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{process[1]}/status").read_text())[0])


def churn(cli: list[str], shrink: int) -> tuple[float, dict[str, float]]:
    """Keys made, most deleted, others made; how many, and what was resident when."""
    many, few = scaled(CHURNED, shrink), scaled(REFILLED, shrink)
    told = {}
    client([*cli, "debug", "populate", str(many), "a", "100"])
    told["rss_full_kib"] = resident_kib(cli)
    gone = random.Random(2021).sample(range(many), many * 3 // 4)
    client(
        cli, "".join(f"unlink {' '.join(f'a:{i}' for i in gone[at : at + 1000])}\n" for at in range(0, len(gone), 1000))
    )
    told["rss_deleted_kib"] = resident_kib(cli)
    time.sleep(REST_S if shrink == 1 else 0)
    told["rss_later_kib"] = resident_kib(cli)
    client([*cli, "debug", "populate", str(few), "b", "240"])
    told["rss_refilled_kib"] = resident_kib(cli)
    return many + len(gone) + few, told


def main() -> None:
    """Starts, loads, measures, checks."""
    options = arguments(__doc__, work=("benchmark", "churn"))
    server_path = program("redis-server", "redis-server")
    with tempfile.TemporaryDirectory(prefix="redis-") as name:  # a socket's path must be short
        socket = Path(name) / "socket"
        cli = [program("redis-cli", "redis-tools"), "-s", str(socket)]
        argv = [server_path, "--port", "0", "--unixsocket", str(socket), "--dir", name, "--save", ""]
        with server([*argv, "--enable-debug-command", "local"]) as used:
            wait_for(socket, cli)
            if options.work == "churn":
                total, told = churn(cli, options.shrink)
            else:
                total, told = benchmark(cli, socket, options.shrink)
            contents = client([*cli, "debug", "digest"])
    used.values["wall_s"] = told.pop("wall_s", used.values["wall_s"])
    report(ops=total, used=used, checksum=digest(contents), **told)


if __name__ == "__main__":
    main()
