# SPDX-License-Identifier: MIT
#
# rocksdb.py: RocksDB's db_bench: fills a database in random order, overwrites, reads at random, scans, compacts.
# Without compression and write-ahead log: what is left is RocksDB's own work, memory tables, block cache, iterators.
# One operation is one key. Checksum: how many keys were found by the reads, which the seed fixes.
"""db_bench of RocksDB's tools."""

from __future__ import annotations

import re

from driver import arguments, digest, fail, program, report, run, scaled

KEYS = 150_000
BENCHMARKS = ("fillrandom", "overwrite", "compact", "readrandom", "seekrandom", "deleterandom", "readseq")


def main() -> None:
    """One run of all benchmarks."""
    options = arguments(__doc__)
    keys = scaled(KEYS, options.shrink)
    flags = [f"--benchmarks={','.join(BENCHMARKS)}", f"--num={keys}", "--db=database", "--seed=2012", "--threads=1"]
    flags += ["--value_size=200", "--compression_type=none", "--disable_wal=1", "--cache_size=8388608"]
    flags += ["--seek_nexts=10", "--write_buffer_size=4194304", "--max_background_jobs=1", "--statistics=0"]
    used = run([program("db_bench", "rocksdb-tools"), *flags])
    found = re.findall(r"^(\w+) +:.*\((\d+ of \d+) found", used.stdout, re.MULTILINE)
    if len(found) < 2:
        fail(f"db_bench printed no counts:\n{used.stdout[-2000:]}")
    report(ops=keys * len(BENCHMARKS), used=used, checksum=digest(str(found)))


if __name__ == "__main__":
    main()
