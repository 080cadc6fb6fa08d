# SPDX-License-Identifier: MIT
#
# real.py: real programs, each started by a driver of bench/real. The main figure is the CPU time of the whole program:
# what its user pays, of which malloc is a part of some percent.
"""Real programs."""

from __future__ import annotations

from harness.workload import CPU_NS, CPU_S, PEAK_RSS, WALL_S, Metric, Workload

WALL = Metric(WALL_S, "wall time", "s", timing=False)
SUITES = ("real",)


def _real(name: str, command: str, label: str, what: str, *groups: str, quick: bool = False) -> Workload:
    script, *rest = command.split()
    metrics = (Metric(CPU_S, label, "s"), WALL, PEAK_RSS)
    suites = (*SUITES, "quick") if quick else SUITES
    return Workload(name, (f"real/{script}", *rest), metrics, suites, ("real", *groups), what)


def _resident(when: str, label: str) -> Metric:
    return Metric(f"rss_{when}_kib", f"redis-server's RSS, {label}", "KiB", timing=False)


def _python(script: str, what: str) -> list[Workload]:
    command = f"python.py --script {script} --objects"
    return [
        _real(f"python-{script}", f"{command} pool", f"python3, {script}", what, "python"),
        _real(
            f"python-{script}-malloc",
            f"{command} malloc",
            f"python3, {script}, PYTHONMALLOC=malloc",
            f"{what}; every object from malloc",
            "python",
            quick=script == "records",
        ),
    ]


WORKLOADS: tuple[Workload, ...] = (
    Workload(
        "redis",
        ("real/redis.py",),
        (
            Metric(CPU_NS, "redis-server, a request"),
            Metric("requests_per_s", "redis-benchmark", "1/s", timing=False, higher_is_better=True),
            PEAK_RSS,
        ),
        ("real", "quick"),
        ("real",),
        "redis-server answers redis-benchmark: ten commands with small values, two with big ones",
    ),
    Workload(
        "redis-churn",
        ("real/redis.py", "--work", "churn"),
        (
            Metric(CPU_NS, "redis-server, a key made or deleted"),
            _resident("full", "a million keys"),
            _resident("deleted", "three in four deleted"),
            _resident("later", "10 s later"),
            _resident("refilled", "with others instead"),
            PEAK_RSS,
        ),
        SUITES,
        ("real", "memory"),
        "a million values of 100 bytes, three in four deleted at random, then 400,000 of 240: what stays resident",
    ),
    Workload(
        "mariadb",
        ("real/mariadb.py",),
        (
            Metric(CPU_NS, "mariadbd, a transaction"),
            Metric("p99_ms", "sysbench's latency, 99 %", "ms", timing=False),
            Metric("transactions_per_s", "sysbench", "1/s", timing=False, higher_is_better=True),
            PEAK_RSS,
        ),
        SUITES,
        ("real",),
        "mariadbd answers sysbench's oltp_read_write of 16 connections, tables in memory",
    ),
    _real("sqlite", "sqlite.py", "sqlite3", "a script of inserts, joins, groups, updates on a database in memory"),
    *_python("records", "JSON, regular expressions, dictionaries, sorting"),
    *_python("classes", "small objects that point at each other: trees, graphs, expressions"),
    *_python("text", "strings and bytes of all lengths: pages, joins, growing text, compression"),
    _real("gxx", "compiler.py --compiler g++", "g++ -O2", "a C++20 file of templates", "compilers"),
    _real("clangxx", "compiler.py --compiler clang++", "clang++ -O2", "the same file", "compilers"),
    _real("git-gc", "git.py", "git gc --aggressive", "a generated repository of 700 commits; two threads"),
    _real("node", "scripts.py --language node", "node", "JSON, maps, classes, buffers", "scripts"),
    _real("ruby", "scripts.py --language ruby", "ruby", "strings, hashes, structs, a small machine", "scripts"),
    _real("java", "scripts.py --language java", "java, from source", "a machine comes up and compiles", "scripts"),
    _real("rocksdb", "rocksdb.py", "RocksDB's db_bench", "fills, overwrites, compacts, reads, scans, deletes"),
    _real("z3", "z3.py", "z3", "pigeons and holes, factors of bit vectors, schedules with arrays"),
)
