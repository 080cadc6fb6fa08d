# SPDX-License-Identifier: MIT
"""The count of live bytes, and what `lab fragmentation` makes of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_lab import lab, run_arguments

MIB = 1 << 20
HELD = 48 * MIB  # by the program below: one block more than the program itself needs
OWN = 12 * MIB  # what an interpreter may need
PROGRAM = f"""
import os, signal
for _ in range(20):
    block = bytearray({HELD})
    del block
if os.fork() == 0:
    block = bytearray({HELD})
    again = bytearray({HELD} // 2)
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
"""


def test_the_peak_is_that_of_the_process_that_had_most_and_outlives_it(build: Path, tmp_path: Path) -> None:
    file = tmp_path / "live"
    file.write_bytes(bytes(8))
    environment = {**os.environ, "LD_PRELOAD": str(build / "bench/peers/liblive.so"), "LIVE_FILE": str(file)}
    subprocess.run([sys.executable, "-S", "-c", PROGRAM], env=environment, check=True)
    peak = int.from_bytes(file.read_bytes(), "little")
    assert 1.5 * HELD <= peak <= 1.5 * HELD + OWN


def test_a_row_divides_the_peak_of_each_allocator_by_what_was_live(build: Path, tmp_path: Path) -> None:
    output = tmp_path / "results.jsonl"
    assert lab(*run_arguments(build, output, "--shrink", 10, "--repeat", 1, "--allocators", "glibc")).returncode == 0
    done = lab("fragmentation", output, "--build", build)
    assert done.returncode == 0, done.stderr
    row = re.search(r"random-1\W+([\d.]+)\W+([\d.]+)", done.stdout)
    assert row, done.stdout
    # 10,000 blocks of 16 to 1024 bytes, and glibc's rounding; resident is the program itself, too.
    assert float(row[1]) == pytest.approx(5.0, abs=0.6)
    assert 1 < float(row[2]) < 3


def test_a_missing_counter_is_named(tmp_path: Path, build: Path) -> None:
    output = tmp_path / "results.jsonl"
    assert lab(*run_arguments(build, output, "--shrink", 1000, "--repeat", 1, "--allocators", "glibc")).returncode == 0
    done = lab("fragmentation", output, "--build", tmp_path)
    assert done.returncode == 1 and "freeway_live" in done.stderr
