# SPDX-License-Identifier: MIT
"""The command, as a user runs it, under allocators that misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, made_up_results
from harness.results import Case, Results, read

LAB = ROOT / "bench/lab"
CASE = Case("random-1")
SHRINK = "1000"


def lab(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(LAB), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def run_arguments(build: Path, output: Path, *more: object) -> list[object]:
    usual = ["--build", build, "--output", output, "--only", "random-1", "--no-nice", "--noise-retries", 0]
    return ["run", *usual, *more]


def statuses(results: Results, allocator: str) -> list[str]:
    return [sample.status for sample in results.of(CASE, allocator)]


@pytest.fixture(scope="module")
def misbehaved(
    build: Path, fakes: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[subprocess.CompletedProcess[str], Results]:
    """One run with every kind of bad allocator between good ones."""
    output = tmp_path_factory.mktemp("lab") / "results.jsonl"
    named = [f"{name}={fakes}/libfake_{name}.so" for name in ("crashing", "same_block", "idle")]
    more = ["--shrink", SHRINK, "--repeat", 3, "--allocators", "glibc", *named, f"again={fakes}/libfake_idle.so"]
    done = lab(*run_arguments(build, output, *more), f"freeway={os.environ['FREEWAY_LIB']}")
    return done, read(output)


Misbehaved = tuple[subprocess.CompletedProcess[str], Results]


def test_the_run_goes_on_and_good_allocators_are_measured(misbehaved: Misbehaved) -> None:
    done, results = misbehaved
    assert done.returncode == 0, done.stderr
    assert statuses(results, "glibc") == ["ok"] * 3
    assert statuses(results, "freeway") == ["ok"] * 3


def test_a_crash_is_reported_with_its_signal_and_not_tried_a_third_time(misbehaved: Misbehaved) -> None:
    done, results = misbehaved
    assert statuses(results, "crashing") == ["crashed"] * 2
    assert "SIGABRT" in results.of(CASE, "crashing")[0].detail
    assert "random-1 under crashing: crashed" in done.stderr
    assert "crashed" in done.stdout


def test_a_block_handed_out_twice_is_a_wrong_checksum(misbehaved: Misbehaved) -> None:
    _, results = misbehaved
    assert statuses(results, "same_block") == ["wrong-checksum"] * 2


def test_an_allocator_that_is_not_used_is_reported(misbehaved: Misbehaved) -> None:
    _, results = misbehaved
    assert statuses(results, "idle")[0] == "wrong-allocator"
    assert "libc" in results.of(CASE, "idle")[0].detail


def test_the_summary_has_means_ratios_and_what_went_wrong(misbehaved: Misbehaved) -> None:
    done, _ = misbehaved
    for part in ("Geometric means", "Ratios to the best", "Best in the main figure", "wrong-checksum", "Results:"):
        assert part in done.stdout


def test_a_hanging_allocator_is_ended_and_reported(build: Path, fakes: Path, tmp_path: Path) -> None:
    more = ["--shrink", SHRINK, "--repeat", 1, "--timeout", 2, "--allocators", "glibc"]
    done = lab(*run_arguments(build, tmp_path / "r.jsonl", *more), f"hanging={fakes}/libfake_hanging.so")
    assert done.returncode == 0, done.stderr
    results = read(tmp_path / "r.jsonl")
    assert statuses(results, "hanging") == ["hung"]
    assert statuses(results, "glibc") == ["ok"]


def test_a_missing_peer_is_named_and_the_rest_measured(build: Path, tmp_path: Path) -> None:
    more = ["--shrink", SHRINK, "--repeat", 1, "--allocators", "glibc", "missing=/nowhere/libx.so"]
    refused = lab(*run_arguments(build, tmp_path / "r.jsonl", *more))
    assert refused.returncode == 1
    assert "no library /nowhere/libx.so for 'missing'" in refused.stderr


def interrupted(build: Path, output: Path, samples: int, *more: object) -> subprocess.CompletedProcess[str]:
    """`lab run`, interrupted as by Ctrl-C when so many samples are in its file."""
    command = [sys.executable, str(LAB), *map(str, run_arguments(build, output, *more))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while not output.exists() or output.read_text().count('"kind":"sample"') < samples:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def test_ctrl_c_keeps_what_was_measured_and_resuming_measures_only_the_rest(build: Path, tmp_path: Path) -> None:
    output = tmp_path / "results.jsonl"
    usual = ["--shrink", "200", "--allocators", "glibc", f"freeway={os.environ['FREEWAY_LIB']}"]
    done = interrupted(build, output, 3, *usual, "--repeat", 400)
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr
    assert "Geometric means" in done.stdout
    before = read(output)
    kept = len(before.samples)
    assert 3 <= kept < 800

    repeats = max(sample.repeat for sample in before.samples) + 2
    resumed = lab(*run_arguments(build, output, *usual, "--repeat", repeats, "--resume"))
    assert resumed.returncode == 0, resumed.stderr
    lines = output.read_text().count('"kind":"sample"')
    assert lines == len(read(output).samples) == 2 * repeats  # each place once: nothing was measured twice


def test_another_build_of_an_allocator_is_not_mixed_in(build: Path, fakes: Path, tmp_path: Path) -> None:
    output = tmp_path / "results.jsonl"
    usual = ["--shrink", SHRINK, "--repeat", 1]
    first = lab(*run_arguments(build, output, *usual, "--allocators", "glibc", f"x={fakes}/libfake_idle.so"))
    assert first.returncode == 0, first.stderr
    mixed = ["--resume", "--allocators", "glibc", f"x={fakes}/libfake_same_block.so"]
    refused = lab(*run_arguments(build, output, *usual, *mixed))
    assert refused.returncode == 1
    assert "cannot continue" in refused.stderr


def test_an_earlier_file_is_put_aside_not_overwritten(build: Path, tmp_path: Path) -> None:
    output = tmp_path / "results.jsonl"
    made_up_results(output, {"one": 10})
    text = output.read_text()
    done = lab(*run_arguments(build, output, "--shrink", SHRINK, "--repeat", 1, "--allocators", "glibc"))
    assert done.returncode == 0, done.stderr
    (kept,) = [path for path in tmp_path.iterdir() if path != output]
    assert kept.read_text() == text


def test_compare_says_which_differences_are_beyond_noise(tmp_path: Path) -> None:
    file = made_up_results(tmp_path / "r.jsonl", {"one": 10, "two": 20})
    done = lab("compare", f"{file}:one", f"{file}:two")
    assert done.returncode == 0, done.stderr
    assert "B costs more" in done.stdout
    assert "two / one: geometric means: time " in done.stdout
    assert "1 of 2 figures beyond noise" in done.stdout  # the time; peak memory is equal


def test_list_names_what_is_missing(build: Path) -> None:
    done = lab("list", "--build", build)
    assert done.returncode == 0, done.stderr
    assert "random-1" in done.stdout
    assert "quick" in done.stdout
    assert "glibc" in done.stdout


def test_wrong_words_are_one_line_not_a_traceback(build: Path, tmp_path: Path) -> None:
    done = lab("run", "--build", build, "--output", tmp_path / "r", "--only", "nonsense")
    assert (done.returncode, done.stderr) == (1, "lab: no workload, group or paper 'nonsense'; `lab list` shows them\n")
    assert lab("compare", tmp_path / "nowhere", tmp_path / "nowhere").returncode == 1
