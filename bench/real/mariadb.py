# SPDX-License-Identifier: MIT
#
# mariadb.py: MariaDB answers sysbench's oltp_read_write: 16 connections, a fixed number of transactions, tables in a
# folder of /dev/shm. CPU time and memory are the server's, the latency (99 %) is what the clients see.
# One operation is one transaction. Checksum: rows of the tables, which each transaction leaves as many as it found.
"""mariadbd under sysbench."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from pathlib import Path

from driver import arguments, digest, environment, fail, program, report, scaled, server

TABLES, ROWS = 4, 25_000
CONNECTIONS, TRANSACTIONS = 16, 12_000
START_TIMEOUT_S = 60


def ask(argv: list[str]) -> str:
    """What a client prints; it runs under the malloc that it has by itself."""
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(argv)}: {done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Installs the system tables, starts, fills, measures, counts rows."""
    options = arguments(__doc__)
    install = program("mariadb-install-db", "mariadb-server-core")
    server_path = program("mariadbd", "mariadb-server-core")
    client = program("mariadb", "mariadb-client-core")
    sysbench = program("sysbench", "sysbench")
    with tempfile.TemporaryDirectory(prefix="mariadb-", dir="/dev/shm") as name:
        data, socket = Path(name) / "data", Path(name) / "socket"
        ask(
            [
                install,
                "--no-defaults",
                f"--datadir={data}",
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
            ]
        )
        argv = [server_path, "--no-defaults", f"--datadir={data}", f"--socket={socket}", "--skip-networking"]
        argv += ["--user=root", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=2"]
        shell = [client, "--no-defaults", f"--socket={socket}", "--user=root", "--batch", "--skip-column-names"]
        load = [sysbench, "oltp_read_write", "--db-driver=mysql", f"--mysql-socket={socket}", "--mysql-user=root"]
        load += ["--mysql-db=sbtest", f"--tables={TABLES}", f"--table-size={scaled(ROWS, options.shrink)}"]
        transactions = scaled(TRANSACTIONS, options.shrink)
        with server(argv) as used:
            deadline = time.monotonic() + START_TIMEOUT_S
            while subprocess.run([*shell, "-e", "select 1"], capture_output=True, check=False).returncode != 0:
                if time.monotonic() > deadline:
                    fail("mariadbd did not start")
                time.sleep(0.05)
            ask([*shell, "-e", "create database sbtest"])
            ask([*load, "prepare"])
            began = time.monotonic()
            told = ask([*load, f"--threads={CONNECTIONS}", f"--events={transactions}", "--time=0", "--percentile=99",
                        "--rand-seed=1", "run"])  # fmt: skip
            seconds = time.monotonic() - began
            rows = [ask([*shell, "-e", f"select count(*) from sbtest.sbtest{i + 1}"]) for i in range(TABLES)]
    latency = re.search(r"99th percentile: +([\d.]+)", told)
    done = re.search(r"transactions: +(\d+)", told)
    if latency is None or done is None:
        fail(f"sysbench printed no figures:\n{told}")
    used.values["wall_s"] = seconds
    report(ops=float(done[1]), used=used, checksum=digest("".join(rows)), p99_ms=float(latency[1]),
           transactions_per_s=float(done[1]) / seconds)  # fmt: skip


if __name__ == "__main__":
    main()
