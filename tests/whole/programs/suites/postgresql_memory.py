# SPDX-License-Identifier: MIT
#
# postgresql_memory.py: how much memory PostgreSQL's processes have with glibc's malloc and with Freeway, by query and
# by regression test. It is a measurement, not a test:
#
#   FREEWAY_LIB=build/release/libfreeway.so python3 -B postgresql_memory.py queries [name...]
#   FREEWAY_LIB=build/release/libfreeway.so python3 -B postgresql_memory.py tests
#
# Each query has a connection, and so a process, of its own; workers are processes of theirs. Per process: the peak of
# its private memory (RssAnon, looked at all the time), what of it stays after the query, and the peak of all its memory
# (VmHWM, by the kernel's account; with the pages of the shared buffers that it touched).
"""Memory of PostgreSQL's processes under glibc's malloc and under Freeway."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import postgresql
import preload
from emulated import folder
from postgresql_made import as_user, build, folder_of_user

MIB = 1024  # KiB
SETTINGS = """listen_addresses = ''
shared_buffers = 128MB
fsync = off
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
autovacuum = off
log_line_prefix = '%p %a|'
log_disconnections = on
"""
TABLES = """create table numbers as
  select i, (i::bigint * 7919) % 1000003 as k, md5(i::text) as t from generate_series(1, 1000000) i;
create table words as select (i * 31) % 50021 as k, repeat(md5(i::text), 3) as t from generate_series(1, 300000) i;
vacuum analyze;
checkpoint;
"""
WORK = "set work_mem = '64MB'; "
PARALLEL = "set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; "
SORT = "select count(*) from (select * from numbers order by t offset 0) q;"
INDEX = "set maintenance_work_mem = '256MB'; create index on numbers (t); drop index numbers_t_idx;"
GROUPS = "select count(*) from (select t, count(*) from numbers group by t) q;"
EACH = "do $$ begin for i in 1..1500 loop execute format('{}', i); end loop; end $$;"
QUERIES = {
    "nothing": "select 1;",
    "sort of rows": WORK + SORT,
    "sort of rows, all in memory": "set work_mem = '400MB'; " + SORT,
    "sort of numbers": WORK + "select count(*) from (select k from numbers order by k offset 0) q;",
    "hash join": WORK + "set enable_mergejoin = off; select count(*) from numbers a join numbers b on a.k = b.i;",
    "hash aggregate": WORK + "set enable_sort = off; " + GROUPS,
    "index": INDEX,
    "index with workers": "set max_parallel_maintenance_workers = 2; " + INDEX,
    "join with workers": WORK + PARALLEL + "select count(*) from numbers a join words b on a.k = b.k;",
    "sort with workers": WORK + PARALLEL + SORT,
    "a long text": "select length(string_agg(t, '')) from numbers;",
    "a large array": "select array_length(array_agg(t), 1) from numbers;",
    "a large jsonb": "select length(jsonb_agg(w)::text) from words w;",
    "compiled": "set jit_above_cost = 0; set jit_optimize_above_cost = 0; set jit_inline_above_cost = 0; "
    "select sum(k * 3 + i), avg(k), max(length(t)) from numbers where k % 7 <> 3 and t like '%a%';",
    "a window": WORK + "select max(r) from (select rank() over (partition by k % 10 order by t) r from numbers) q;",
    "many tables": EACH.format("create table part_%s (a int primary key, b text)") + EACH.format("drop table part_%s"),
}


@dataclass
class Memory:
    """Of one process, in KiB."""

    title: str = ""
    private: int = 0
    after: int = 0
    peak: int = 0


class Watch(threading.Thread):
    """Looks at the server's processes until it is told to stop."""

    def __init__(self, server: int) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.seen: dict[int, Memory] = {}
        self.over = threading.Event()

    def look(self, pid: int) -> None:
        """One process; it may be gone."""
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            found = {name: int(size) for name, size in re.findall(r"^(VmHWM|RssAnon):\s+(\d+)", status, re.MULTILINE)}
            if len(found) == 2:
                memory = self.seen.setdefault(pid, Memory())
                memory.after = found["RssAnon"]
                memory.private = max(memory.private, memory.after)
                memory.peak = max(memory.peak, found["VmHWM"])
                title = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0 ")
                if "postgres" in title:
                    memory.title = title

    def run(self) -> None:
        """Looks at all, again and again."""
        while not self.over.wait(0.003):
            with contextlib.suppress(OSError):
                for pid in Path(f"/proc/{self.server}/task/{self.server}/children").read_text().split():
                    self.look(int(pid))


@contextlib.contextmanager
def running_server(work: Path, preloaded: bool) -> Iterator[tuple[Path, Watch]]:
    """A server with the tables, watched; its folder, where its socket is."""
    place = folder_of_user(work / "runs" / f"memory-{'freeway' if preloaded else 'glibc'}")
    initdb = as_user(work / "bin/initdb", "--no-locale", "--encoding=UTF8", "--auth=trust", "-D", place / "data")
    preload.succeed(initdb, preload=preloaded, cwd=place)
    (place / "data/postgresql.conf").write_text(SETTINGS + f"unix_socket_directories = '{place}'\n")
    argv = as_user(work / "bin/postgres", "-D", place / "data")
    with (place / "log").open("w") as log:
        process = subprocess.Popen(argv, env=preload.environment(preloaded), cwd=place, stdout=log, stderr=log)
    watch = Watch(process.pid)
    try:
        while not (place / ".s.PGSQL.5432").exists():
            preload.check(process.poll() is None, (place / "log").read_text())
            time.sleep(0.05)
        watch.start()
        yield place, watch
    finally:
        watch.over.set()
        process.send_signal(signal.SIGINT)  # at once, whoever is connected
        process.wait()


class Session:
    """A connection."""

    def __init__(self, work: Path, place: Path) -> None:
        argv = as_user(work / "bin/psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", place, "postgres")
        self.psql = subprocess.Popen(
            argv, env=preload.environment(False), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = int(self.ask("select pg_backend_pid();"))

    def ask(self, text: str) -> str:
        """The last line of the answer."""
        assert self.psql.stdin is not None and self.psql.stdout is not None
        self.psql.stdin.write(text + "\n\\echo over\n")
        self.psql.stdin.flush()
        last = ""
        for line in self.psql.stdout:
            if line == "over\n":
                return last
            last = line
        raise preload.Failed(f"psql ended at {text}")

    def close(self) -> None:
        """Ends it, and so its process."""
        self.psql.communicate()


def measure_queries(work: Path, preloaded: bool, names: list[str]) -> dict[str, Memory]:
    """Query -> its process; its worker of most memory has a line of its own."""
    table: dict[str, Memory] = {}
    with running_server(work, preloaded) as (place, watch):
        first = Session(work, place)
        first.ask(TABLES)
        first.close()
        for name in names or QUERIES:
            session = Session(work, place)
            before = set(watch.seen)
            session.ask(QUERIES[name])
            watch.look(session.pid)
            table[name] = watch.seen[session.pid]
            workers = [memory for pid, memory in watch.seen.items() if pid not in before and "worker" in memory.title]
            if workers:
                table[f"{name}: worker"] = max(workers, key=lambda memory: memory.private)
            session.close()
    return table


def measure_tests(work: Path, preloaded: bool, _: list[str]) -> dict[str, Memory]:
    """Regression test -> its process of most memory."""
    part = postgresql.PARTS[0]
    place = folder_of_user(work / "runs" / f"memory-{'freeway' if preloaded else 'glibc'}")
    settings = place / "settings"
    settings.write_text("log_line_prefix = '%p %a|'\nlog_disconnections = on\n")
    argv = [*postgresql.command(work, part, place), f"--temp-config={settings}"]
    process = subprocess.Popen(argv, env=preload.environment(preloaded), cwd=place, stdout=subprocess.DEVNULL)
    while (server := postgresql.server_of(place)) == 0:
        preload.check(process.poll() is None, "pg_regress has no server")
        time.sleep(0.05)
    watch = Watch(server)
    watch.start()
    process.wait()
    watch.over.set()
    said = (place / "log/postmaster.log").read_text(errors="replace")
    test_of = {int(pid): test for pid, test in re.findall(r"^(\d+) pg_regress/(\w+)\|", said, re.MULTILINE)}
    table: dict[str, Memory] = {}
    for pid, memory in watch.seen.items():
        leader = re.search(r"worker for PID (\d+)", memory.title)
        name = f"{test_of.get(int(leader[1]))}: worker" if leader else test_of.get(pid, memory.title)
        if name not in table or table[name].private < memory.private:
            table[name] = memory
    return table


def show(tables: dict[bool, dict[str, Memory]]) -> None:
    """Both beside each other, the largest ratio of private memory first."""
    rows = []
    for name in tables[False].keys() & tables[True].keys():
        plain, ours = tables[False][name], tables[True][name]
        rows.append((ours.private / plain.private, name, plain, ours))
    print(f"{'MiB: glibc -> Freeway':44} {'private, peak':>22} {'private, after':>22} {'all, peak':>22}")
    for _, name, plain, ours in sorted(rows, key=lambda row: row[0], reverse=True):
        cells = [
            f"{old / MIB:7.1f} -> {new / MIB:6.1f} {new / old:5.2f}"
            for old, new in ((plain.private, ours.private), (plain.after, ours.after), (plain.peak, ours.peak))
        ]
        print(f"{name[:44]:44} {' '.join(cells)}")


def main() -> None:
    """The command."""
    kinds = {"queries": measure_queries, "tests": measure_tests}
    if len(sys.argv) < 2 or sys.argv[1] not in kinds or not set(sys.argv[2:]) <= set(QUERIES):
        sys.exit(f"one of {', '.join(kinds)}; queries: {', '.join(QUERIES)}")
    work = folder("suites/postgresql")
    build(work)
    show({preloaded: kinds[sys.argv[1]](work, preloaded, sys.argv[2:]) for preloaded in (False, True)})


if __name__ == "__main__":
    main()
