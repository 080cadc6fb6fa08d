# SPDX-License-Identifier: MIT
"""The results file: what is written is read again, whatever happened to the file in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.results import CRASHED, AllocatorRecord, Case, Count, ResultsError, Run, Sample, Writer, read
from harness.workload import CPU_NS, PEAK_RSS, Metric

HEAD = Run("t0", "quick", 2, 1, {"cpus": 2}, (AllocatorRecord("glibc", None, "2.36"),), ("lifo",))
TIME = Metric(CPU_NS, "time")


def sample(repeat: int, seconds: float = 1.0, status: str = "ok") -> Sample:
    values = {"ops": 1e9, "cpu_seconds": seconds} if status == "ok" else {}
    return Sample("t0", repeat, "lifo", 2, "glibc", status, values=values, checksum="ab", rss=((0.01, 5), (0.02, 7)))


def written(path: Path, *records: Run | Sample | Count) -> Path:
    with Writer(path) as writer:
        for record in records:
            writer.write(record)
    return path


def test_all_that_is_written_is_read(tmp_path: Path) -> None:
    count = Count("t0", "malloc(32) + free", "glibc", instructions=126, source="callgrind")
    results = read(written(tmp_path / "r.jsonl", HEAD, sample(0), count))
    assert results.runs == [HEAD]
    assert results.samples == [sample(0)]
    assert results.counts == [count]
    assert results.cases() == [Case("lifo", 2)]


def test_each_line_is_in_the_file_before_the_next_is_measured(tmp_path: Path) -> None:
    with Writer(tmp_path / "r.jsonl") as writer:
        writer.write(HEAD)
        writer.write(sample(0))
        assert len(read(tmp_path / "r.jsonl").samples) == 1


def test_a_last_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", HEAD, sample(0), sample(1))
    path.write_text(path.read_text()[:-30])
    assert [s.repeat for s in read(path).samples] == [0]
    written(path, sample(1, 3.0))
    assert read(path).figures(TIME, Case("lifo", 2), "glibc") == {0: 1.0, 1: 3.0}


def test_a_broken_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", HEAD)
    path.write_text(path.read_text() + '{"kind": "sample"}\n')
    with pytest.raises(ResultsError, match="line 2"):
        read(path)


def test_a_file_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no run"):
        read(written(tmp_path / "r.jsonl", sample(0)))
    with pytest.raises(ResultsError, match="cannot read"):
        read(tmp_path / "nowhere.jsonl")


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", HEAD)
    path.write_text(path.read_text().replace('"format":1', '"format":99'))
    with pytest.raises(ResultsError, match="format 99"):
        read(path)


def test_a_later_sample_takes_the_earlier_ones_place(tmp_path: Path) -> None:
    results = read(written(tmp_path / "r.jsonl", HEAD, sample(0, 1.0), sample(1, 2.0), sample(0, 5.0)))
    assert results.figures(TIME, Case("lifo", 2), "glibc") == {0: 5.0, 1: 2.0}


def test_bad_samples_and_absent_figures_give_none(tmp_path: Path) -> None:
    results = read(written(tmp_path / "r.jsonl", HEAD, sample(0, status=CRASHED), sample(1)))
    assert results.figures(TIME, Case("lifo", 2), "glibc") == {1: 1.0}
    assert results.figures(PEAK_RSS, Case("lifo", 2), "glibc") == {}
    assert results.figures(TIME, Case("lifo", 2), "nobody") == {}
