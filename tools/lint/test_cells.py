# SPDX-License-Identifier: MIT
"""Planted faults that the lint of cells must find."""

from __future__ import annotations

from tools.lint import cells
from tools.lint.planted import Tree

ROW = "| name | {} |\n|---|---|\n"


def test_a_cell_of_more_words_is_found(tree: Tree) -> None:
    tree.write("docs/page.md", ROW.format("word " * 25))
    assert cells.check(tree.root) == []
    tree.write("docs/page.md", "text\n\n" + ROW.format("word " * 26))
    (finding,) = cells.check(tree.root)
    assert str(finding).startswith("docs/page.md:3: a cell of 26 words")


def test_code_is_a_word_and_targets_and_names_of_tests_are_none(tree: Tree) -> None:
    assert cells.words("one `two three four` [five](a page with words.md) [sig] · — six") == 4
    tree.write("README.md", "```\n" + ROW.format("word " * 26) + "```\n")
    tree.write("src/page.md", ROW.format("word " * 26))
    assert cells.check(tree.root) == []
