# SPDX-License-Identifier: MIT
#
# Debian's redis-server, which is linked with jemalloc, on Freeway and its jemalloc's functions: by LD_PRELOAD, and with
# libjemalloc.so.2 found where LD_LIBRARY_PATH says. What redis tells of its memory must be what Freeway knows
# (`freeway stat`) and what redis counts itself; MEMORY's commands do what they say; children that save work.
"""redis-server on libfreeway-jemalloc.so."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "whole" / "programs"))

from preload import Failed, check, environment, main, need, require_same, run, succeed  # noqa: E402
from redis import Server, data_set  # noqa: E402

KEYS = 200_000
SHIM = Path(os.environ["FREEWAY_JEMALLOC"])
FREEWAY = SHIM.parent / "libfreeway.so.0"
SONAME = SHIM.parent / "libfreeway-jemalloc.so.0"
STAND_IN = SHIM.parent / "compat" / "jemalloc"
JEMALLOC = re.compile(r"/libjemalloc\.so\.2$")


def own_options() -> dict[str, str]:
    """FREEWAY_… of the test's mode."""
    return {name: value for name, value in os.environ.items() if name == "FREEWAY_RSEQ"}


class Standing(Server):
    """A redis-server with these variables; its clients are as they are."""

    def __init__(self, folder: Path, variables: dict[str, str], *options: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.preload = folder, False
        self.socket = folder / "socket"
        argv = [need("redis-server", "redis-server"), "--port", "0", "--unixsocket", str(self.socket)]
        argv += ["--dir", str(folder), "--logfile", str(folder / "log"), "--save", "", "--enable-debug-command", "yes"]
        everything = environment(False, variables | own_options())
        self.process = subprocess.Popen([*argv, *options], env=everything, cwd=folder, stderr=subprocess.DEVNULL)
        self.wait_for("the server to answer", self.answers)

    def mapped(self) -> set[str]:
        """The files that it has mapped."""
        lines = (Path("/proc") / str(self.process.pid) / "maps").read_text().splitlines()
        return {fields[5] for fields in (line.split() for line in lines) if len(fields) > 5}

    def memory(self) -> dict[str, float]:
        """The figures of INFO memory."""
        lines = (line.split(":", 1) for line in self.command("INFO", "memory").splitlines() if ":" in line)
        return {name: float(value) for name, value in lines if re.fullmatch(r"-?[0-9.]+", value.strip())}

    def freeway(self) -> dict[str, int]:
        """What `freeway stat` reads in it from outside."""
        argv = [os.environ["FREEWAY_COMMAND"], "stat", "--json", str(self.process.pid)]
        return json.loads(succeed(argv, preload=False).out)

    def settled(self) -> tuple[dict[str, float], dict[str, int]]:
        """Both, once they agree: redis reads the allocator ten times a second, and INFO shows its last reading.

        A command may run on another CPU than the last one; its per-CPU cache then maps up to a frame for each class.
        """
        found: list[tuple[dict[str, float], dict[str, int]]] = []

        def agree() -> bool:
            # A question takes memory, too, and frees it.
            found[:] = [(self.memory(), self.freeway())]
            return all(near(one, other, apart) for one, other, apart in same_figures(*found[0]))

        try:
            self.wait_for("redis and Freeway to agree", agree)
        except Failed as failed:
            raise Failed(f"{failed}: {found}") from failed
        return found[0]


def same_figures(told: dict[str, float], known: dict[str, int]) -> list[tuple[float, float, int]]:
    """Redis's figures, Freeway's for the same, and the bytes that they may be apart."""
    return [
        (told["allocator_allocated"], known["allocated"], 1 << 19),
        (told["allocator_active"], known["mapped"] - known["dirty"], 1 << 20),
        (told["allocator_resident"], known["held"], 1 << 20),
    ]


def near(one: float, other: float, bytes_apart: int) -> bool:
    return abs(one - other) <= bytes_apart


def tells_the_truth(server: Standing) -> None:
    """INFO memory, before and after a load, beside what Freeway says and what redis counts itself."""
    before, _ = server.settled()
    server.command("DEBUG", "POPULATE", str(KEYS), "key", "200")
    told, _ = server.settled()
    check(told["used_memory"] > before["used_memory"] + KEYS * 200, f"too little to tell: {told}")
    ordered = ["used_memory", "allocator_allocated", "allocator_active", "allocator_resident"]
    for less, more in itertools.pairwise(ordered):
        check(told[less] <= told[more], f"{less} {told[less]} > {more} {told[more]}")
    # Redis counts what it has; there is little else in the process.
    check(told["allocator_allocated"] < told["used_memory"] * 1.1, f"allocator_allocated: {told}")
    check(told["allocator_resident"] < told["used_memory_rss"] * 1.1, f"resident, and not in memory: {told}")
    ratio = told["allocator_active"] / told["allocator_allocated"]
    check(abs(told["allocator_frag_ratio"] - ratio) < 0.02, f"allocator_frag_ratio is not {ratio}")
    check(told["allocator_frag_ratio"] < 1.5, f"allocator_frag_ratio: {told}")


def commands_work(server: Standing, others: dict[str, str]) -> None:
    """MEMORY's commands, and options that ask for jemalloc; `others` is what redis answers on jemalloc itself."""
    text = server.command("MEMORY", "MALLOC-STATS")
    for part in ("Begin jemalloc statistics", "Freeway", "Allocated: ", "End jemalloc statistics"):
        check(part in text, f"MEMORY MALLOC-STATS without '{part}':\n{text}")
    check("Sam, " in server.command("MEMORY", "DOCTOR"), "MEMORY DOCTOR is silent")
    check("fragmentation.bytes" in server.command("MEMORY", "STATS"), "MEMORY STATS is silent")
    for question, answer in others.items():
        require_same(question, answer, server.command(*question.split()))
    # Freed at once, not by a thread in the background; what is then dirty goes.
    server.command("FLUSHALL", "SYNC")
    server.wait_for("free memory to be there", lambda: server.memory()["used_memory"] < KEYS * 50)
    require_same("MEMORY PURGE", "OK", server.command("MEMORY", "PURGE"))
    known = server.freeway()
    check(known["dirty"] < 1 << 20, f"after MEMORY PURGE: {known}")
    check(known["purged"] > KEYS * 100, f"MEMORY PURGE gave little back: {known}")


def binds_to_freeway(variables: dict[str, str]) -> None:
    """By the loader's account malloc's family, and C++'s, are Freeway's for every file; mallctl is this library's."""
    argv = [need("redis-server", "redis-server"), "--version"]
    told = run(argv, preload=False, env=variables | {"LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}).err
    bound = set(re.findall(r"binding file \S+ \[0\] to (\S+) \[0\]: normal symbol `(\w+)'", told))
    for function in ("malloc", "free", "calloc", "realloc", "_Znwm", "_ZdlPv", "mallctl"):
        library = SHIM if function == "mallctl" else FREEWAY
        files = {file for file, symbol in bound if symbol == function}
        check(bool(files), f"{function} is bound to nothing")
        for file in files:
            check(library.samefile(file), f"{function} is bound to {file}")


def answers_on_jemalloc(folder: Path) -> dict[str, str]:
    """What redis says to these on the jemalloc that it is linked with."""
    server = Standing(folder, {})
    try:
        check(any(JEMALLOC.search(file) for file in server.mapped()), "Debian's redis is not on jemalloc")
        options = ("activedefrag yes", "jemalloc-bg-thread no", "jemalloc-bg-thread yes")
        questions = [f"CONFIG SET {option}" for option in options]
        return {question: server.command(*question.split()) for question in questions}
    finally:
        server.kill()


def life(folder: Path, variables: dict[str, str], others: dict[str, str]) -> None:
    """Figures and commands, then saving in a child beside a load, and coming back from what was saved."""
    server = Standing(folder, variables)
    try:
        mapped = server.mapped()
        check(any("libfreeway-jemalloc.so" in file for file in mapped), "the library is not there")
        if "LD_LIBRARY_PATH" in variables:
            check(not any(JEMALLOC.search(file) for file in mapped), "jemalloc is there, too")
        tells_the_truth(server)
        commands_work(server, others)
        check("errors: 0" in server.command("--pipe", stdin=data_set(2000)), "loading failed")
        benchmark = server.benchmark(10_000)
        while benchmark.poll() is None:
            server.background("BGSAVE", "rdb_bgsave_in_progress", "rdb_last_bgsave_status")
        check(benchmark.returncode == 0, f"redis-benchmark: exit status {benchmark.returncode}")
        server.background("BGSAVE", "rdb_bgsave_in_progress", "rdb_last_bgsave_status")
        server.background("BGREWRITEAOF", "aof_rewrite_in_progress", "aof_last_bgrewrite_status")
        before = server.digest()
    finally:
        server.kill()
    server = Standing(folder, variables)
    try:
        require_same("the digest after a restart", before, server.digest())
    finally:
        server.kill()


def redis_server(folder: Path) -> None:
    """Both ways in."""
    others = answers_on_jemalloc(folder / "jemalloc")
    preloaded, in_its_place = {"LD_PRELOAD": str(SONAME)}, {"LD_LIBRARY_PATH": str(STAND_IN)}
    for name, variables in (("preloaded", preloaded), ("in_its_place", in_its_place)):
        binds_to_freeway(variables)
        life(folder / name, variables, others)


if __name__ == "__main__":
    os.umask(0o077)
    main(redis_server)
