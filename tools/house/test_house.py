# SPDX-License-Identifier: MIT
"""The figures are measured in a small planted house."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.house import __main__ as house


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src/os").mkdir(parents=True)
    (tmp_path / "src/tests").mkdir()
    (tmp_path / "src/a.h").write_text("class A {\n  void f();\n  void f(int);\n  int g() { return 1; }\n  int x;\n};\n")
    (tmp_path / "src/b.S").write_text("one\n")
    (tmp_path / "src/tests/t.cc").write_text("one\ntwo\n")
    (tmp_path / "src/os/option_table.h").write_text('    {"RSEQ", "0|1",\n     "x"},\n    {"ON_ERROR", "a", "b"},\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_lines_of_tests_and_other_files_do_not_count(planted: Path) -> None:
    (planted / "src/README.md").write_text("prose\n")
    assert house.lines_below(Path("src")) == 6 + 1 + 3


@pytest.mark.skipif(house.shutil.which("ctags") is None, reason="no ctags")
def test_overloads_count_and_words_do_not(planted: Path) -> None:
    assert house.classes()[0] == (3, "A")


def test_each_option_counts_once(planted: Path) -> None:
    assert house.options() == 2


def test_a_figure_above_its_limit_fails(
    planted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(house, "figures", lambda: [house.Figure("lines", 2, 2, 1)])
    assert house.main() == 0
    monkeypatch.setattr(house, "figures", lambda: [house.Figure("lines", 3, 2, 1)])
    assert house.main() == 1
    assert "above its limit" in capsys.readouterr().out


def test_a_gdb_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **settings: object) -> subprocess.CompletedProcess[str]:
        if command[0] == "gdb":
            raise subprocess.TimeoutExpired(command, house.WAY_TIMEOUT_S, output=b'Function "refill" not defined.')
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(house.subprocess, "run", run)
    with pytest.raises(RuntimeError, match=r"(?s)way.py stops at.*refill"):
        house.way()
