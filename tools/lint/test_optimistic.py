# SPDX-License-Identifier: MIT
"""Planted faults that the lint of optimistic reads must find."""

from __future__ import annotations

from tools.lint import optimistic
from tools.lint.planted import Tree

ROW = "| link | `src/sync/stack.h` | a link | tags |\n"


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in optimistic.check(tree.root)]


def test_a_label_with_its_row_is_accepted(tree: Tree) -> None:
    tree.source("src/sync/stack.h", "u32 b = link.load_relaxed();  // OPTIMISTIC: link\n")
    tree.write("docs/optimistic-reads.md", "| label | where |\n|---|---|\n" + ROW)
    assert messages(tree) == []


def test_a_label_above_the_read_is_accepted(tree: Tree) -> None:
    tree.source("src/sync/stack.h", "// OPTIMISTIC: link\nauto b = map.get_unowned(a);\n")
    tree.write("docs/optimistic-reads.md", ROW)
    assert messages(tree) == []


def test_a_label_without_a_row_is_found(tree: Tree) -> None:
    tree.source("src/sync/stack.h", "u32 b = link.load_relaxed();  // OPTIMISTIC: link\n")
    (message,) = messages(tree)
    assert message.startswith("src/sync/stack.h:2: ") and "'link'" in message


def test_a_row_that_names_another_file_is_found_from_both_sides(tree: Tree) -> None:
    tree.source("src/sync/list.h", "u32 b = link.load_relaxed();  // OPTIMISTIC: link\n")
    tree.write("docs/optimistic-reads.md", ROW)
    assert len(messages(tree)) == 2


def test_an_unowned_read_without_a_label_is_found(tree: Tree) -> None:
    tree.source("src/sync/stack.h", "auto b = map->get_unowned(a);\nauto c = map.get_owned(a);\n")
    (message,) = messages(tree)
    assert message.startswith("src/sync/stack.h:2: ")
