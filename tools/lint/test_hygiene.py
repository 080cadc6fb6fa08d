# SPDX-License-Identifier: MIT
"""Planted faults that the hygiene lint must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lint import hygiene
from tools.lint.planted import Tree


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in hygiene.check(tree.root)]


def test_a_tree_without_faults_is_accepted(tree: Tree) -> None:
    tree.source("src/sync/stack.h", "#pragma once\n")
    tree.write("scripts/run-this", "#!/usr/bin/env bash\n# SPDX-License-Identifier: MIT\n")
    tree.write("include/freeway/freeway.h", "/* SPDX-License-Identifier: MIT\n */\n")
    tree.write("docs/common-questions.md", "no source, no licence line\n")
    assert messages(tree) == []


@pytest.mark.parametrize("path", ["src/sync/a.h", "tests/unit/a.cc", "tools/lint/a.py", "bench/CMakeLists.txt"])
def test_a_missing_licence_line_is_found(tree: Tree, path: str) -> None:
    tree.write(path, "\n")
    assert [message.split(": ")[0] for message in messages(tree)] == [f"{path}:1"]


def test_a_script_without_suffix_is_a_source(tree: Tree) -> None:
    tree.write("scripts/run-this", "#!/bin/sh\ntrue\n")
    assert [message.split(": ")[0] for message in messages(tree)] == ["scripts/run-this:2"]


def test_a_long_file_of_the_library_is_found(tree: Tree) -> None:
    tree.source("src/sync/long.h", "\n" * hygiene.MAX_LIBRARY_LINES)
    tree.source("tests/unit/long.cc", "\n" * hygiene.MAX_LIBRARY_LINES)
    (message,) = messages(tree)
    assert message.startswith("src/sync/long.h:501: ")


@pytest.mark.parametrize("path", ["src/sync/utils.h", "tests/common/a.cc", "tools/misc.py"])
def test_names_that_say_nothing_are_found(tree: Tree, path: str) -> None:
    tree.source(path, "")
    assert any("says nothing" in message for message in messages(tree))


@pytest.mark.parametrize(
    "condition",
    ["#ifdef __x86_64__", "#if defined(__linux__) && FREEWAY_CHECKS", "#  ifndef _GNU_SOURCE", "#elif __aarch64__"],
)
def test_conditions_on_the_machine_are_found(tree: Tree, condition: str) -> None:
    tree.source("src/sync/stack.h", f"{condition}\n")
    (message,) = messages(tree)
    assert "only arch and os" in message
    (tree.root / "src/sync/stack.h").unlink()
    tree.source("src/arch/stack.h", f"{condition}\n")
    assert messages(tree) == []


@pytest.mark.parametrize(
    "condition", ["#if FREEWAY_CHECKS >= 2", "#ifndef FREEWAY_PREFIXED", "#ifdef __cplusplus", "#if 1"]
)
def test_conditions_on_freeways_own_options_are_accepted(tree: Tree, condition: str) -> None:
    tree.source("src/sync/stack.h", f"{condition}\n#endif\n")
    assert messages(tree) == []


def test_shell_scripts_are_known_by_suffix_and_first_line(tree: Tree) -> None:
    tree.write("scripts/one", "#!/usr/bin/env bash\n")
    tree.write("scripts/two.sh", "\n")
    tree.write("scripts/three", "#!/usr/bin/env python3\n")
    assert hygiene.shell_scripts(tree.root) == [Path("scripts/one"), Path("scripts/two.sh")]


@pytest.mark.parametrize(("path", "text"), [("testdir/test.db", "text"), ("tests/program", "\x7fELF\0\0")])
def test_what_a_program_left_behind_is_found(tree: Tree, path: str, text: str) -> None:
    tree.write(path, text)
    (message,) = messages(tree)
    assert message.startswith(path)


@pytest.mark.parametrize(
    "path", ["docs/picture.png", "bench/results/all.jsonl.gz", "tests/whole/fuzz/corpus/options.tar.xz"]
)
def test_bytes_are_accepted_where_they_belong(tree: Tree, path: str) -> None:
    tree.write(path, "\0\1")
    assert messages(tree) == []
