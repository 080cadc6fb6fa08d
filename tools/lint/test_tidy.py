# SPDX-License-Identifier: MIT
"""Which sources clang-tidy looks at again, by which commands, and that a fault is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.lint import tidy
from tools.lint.planted import Tree

SOURCES = ["src/sync/a.cc", "src/sync/b.cc", "shared/c.cc"]


@pytest.fixture
def compiled(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Tree:
    tree.source("src/base/integers.h", "using u64 = unsigned long;\n")
    tree.source("src/sync/stack.h", '#include "base/integers.h"\n')
    tree.source("src/sync/a.cc", '#include "sync/stack.h"\nu64 a = 1;\n')
    tree.source("src/sync/b.cc", "int b = 1;\n")
    tree.source("shared/backing.h", '#pragma once\n#include "into.h"\n')
    tree.source("shared/into.h", '#pragma once\n#include "backing.h"\n')
    tree.source("shared/c.cc", '#include "backing.h"\nint c = 1;\n')
    tree.source("shared/tests/d.cc", "int d = 1;\n")
    tree.write(".clang-tidy", "Checks: '-*,bugprone-suspicious-semicolon'\nWarningsAsErrors: '*'\n")
    entries = [
        {
            "directory": str(tree.root),
            "file": str(tree.root / path),
            "command": f"c++ -I{tree.root}/src -Werror --param=ggc-min-expand=30 {flag} -c {tree.root / path}",
        }
        for path in [*SOURCES, "shared/tests/d.cc"]
        for flag in ("-O1", "-O2")
    ]
    tree.write("build/release/compile_commands.json", json.dumps(entries))
    monkeypatch.chdir(tree.root)
    return tree


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["tidy", "--jobs", "1", *arguments])
    return tidy.main()


def test_each_source_is_looked_at_once_and_tests_are_not(compiled: Tree) -> None:
    known = tidy.commands(compiled.root)
    assert list(known) == SOURCES
    assert all("-O1" in each["command"] and "-Werror" not in each["command"] for each in known.values())


@pytest.mark.parametrize(
    ("changed", "affected"),
    [
        ("src/base/integers.h", ["src/sync/a.cc"]),
        ("src/sync/b.cc", ["src/sync/b.cc"]),
        ("shared/into.h", ["shared/c.cc"]),
        ("docs/page.md", []),
        (".clang-tidy", SOURCES),
    ],
)
def test_a_change_reaches_what_includes_it(compiled: Tree, changed: str, affected: list[str]) -> None:
    assert tidy.affected(compiled.root, SOURCES, {changed}) == affected


def test_a_fault_is_found_once(
    compiled: Tree, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 0
    Path("src/sync/b.cc").write_text("int b(bool x) {\n  if (x);\n  return 1;\n}\n")
    assert run(monkeypatch) == 1
    output = capfd.readouterr().out
    assert output.count("src/sync/b.cc:2:9: error: ") == 1
    assert output.endswith("1 findings in 1 of 3 sources\n")


def test_a_source_that_does_not_compile_is_no_success(compiled: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("src/sync/b.cc").write_text('#include "nowhere.h"\n')
    assert run(monkeypatch, "src/sync/b.cc") == 1


def test_a_file_that_is_not_compiled_is_refused(compiled: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "src/sync/stack.h") == 1
