# SPDX-License-Identifier: MIT
#
# sqlite under the preload: a threaded C program on libsqlite3 and the sqlite3 shell.
"""sqlite3 with threads, and its shell."""

from __future__ import annotations

import sys
from pathlib import Path

from preload import SOURCES, check, main, need, prove_preload, require_same, same, succeed


def sqlite_threads(folder: Path) -> None:
    """Four threads on one file and on databases in memory."""
    rows = "20000" if "long" in sys.argv[1:] else "2000"
    program = str(folder / "sqlite_threads")
    build = ["-O1", "-pthread", "-o", program, str(SOURCES / "sqlite_threads.c"), "-lsqlite3"]
    succeed([need("gcc", "g++"), *build], preload=False)
    prove_preload([program, str(folder / "proof.db"), "10"])
    plain, preloaded = (
        succeed([program, str(folder / f"{preload}.db"), rows], preload=preload).out for preload in (False, True)
    )
    require_same("what sqlite_threads prints", plain, preloaded)
    check("integrity ok" in preloaded, f"the database is broken:\n{preloaded}")


def sqlite_shell(_: Path) -> None:
    """A recursive query, a window function, a big sort and the JSON functions."""
    sql = """
      CREATE TABLE n AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 60000)
        SELECT i, (i * 7919) % 60013 AS r, printf('%08x%08x', i * 2654435761 % 4294967296, i) AS t FROM c;
      SELECT count(*), sum(r), min(t), max(t) FROM n;
      SELECT sum(d) FROM (SELECT r - lag(r, 1, 0) OVER (ORDER BY t) AS d FROM n);
      SELECT length(group_concat(t, ',')) FROM (SELECT t FROM n ORDER BY r);
      SELECT json_array_length(json_group_array(json_object('i', i, 't', t))) FROM n;
      PRAGMA integrity_check;
    """
    shell = need("sqlite3", "sqlite3")
    prove_preload([shell, "--version"])
    check("ok" in same([shell, ":memory:"], stdin=sql).out, "integrity_check did not say ok")


if __name__ == "__main__":
    main(sqlite_threads, sqlite_shell)
