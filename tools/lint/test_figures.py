# SPDX-License-Identifier: MIT
"""Planted faults that the lint of figures must find."""

from __future__ import annotations

import pytest

from tools.lint import figures
from tools.lint.planted import Tree

LIVE = 'FREEWAY_FIGURE(live, kBytes, "Blocks, by size.", " (all)")\n'
PURGES = 'FREEWAY_FIGURE(purges, kTotal, "Runs given back.")\n'


@pytest.fixture
def copies(tree: Tree) -> Tree:
    """A tree with two figures, and all copies of them."""
    tree.source(figures.SOURCE, LIVE + PURGES)
    for copy in figures.COPIES:
        known, _ = figures.read(LIVE + PURGES)
        tree.write(copy.path, figures.written(copy, f"before\n{copy.first}is to go\n{copy.last}after\n", known))
    return tree


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in figures.check(tree.root)]


def test_copies_that_are_written_are_accepted(copies: Tree) -> None:
    assert messages(copies) == []


def test_each_language_says_name_type_and_text(copies: Tree) -> None:
    header, python, rust = [(copies.root / copy.path).read_text() for copy in figures.COPIES]
    assert "  size_t live;                /* blocks, by size (all) */\n" in header
    assert "  uint64_t purges;            /* count so far: runs given back */\n}" in header
    assert python == 'before\n_FIGURES = (\n    "live",\n    "purges",\n)\nafter\n'
    assert "        /// Count so far: runs given back.\n        purges: u64,\n    }\n" in rust


@pytest.mark.parametrize("text", [LIVE, PURGES + LIVE, LIVE + PURGES.replace("given", "taken") + PURGES[:-2]])
def test_figures_that_are_gone_moved_or_changed_are_found(copies: Tree, text: str) -> None:
    copies.source(figures.SOURCE, text)
    assert {message.split(":")[0] for message in messages(copies)} >= {copy.path for copy in figures.COPIES[:1]}


@pytest.mark.parametrize("copy", figures.COPIES, ids=lambda copy: copy.path)
def test_a_copy_changed_by_hand_is_found(copies: Tree, copy: figures.Copy) -> None:
    copies.write(copy.path, (copies.root / copy.path).read_text().replace("live", "alive"))
    (message,) = messages(copies)
    assert message.startswith(f"{copy.path}:2: ")


@pytest.mark.parametrize(
    "line",
    [
        'FREEWAY_FIGURE(huge, kWords, "Blocks.")\n',
        'FREEWAY_FIGURE(huge, kBytes, "No full stop")\n',
        'FREEWAY_FIGURE(huge, kBytes,\n  "Blocks.")\n',
    ],
)
def test_a_line_that_is_no_figure_is_found(copies: Tree, line: str) -> None:
    copies.source(figures.SOURCE, LIVE + PURGES + line)
    (message,) = messages(copies)
    assert message.startswith(f"{figures.SOURCE}:4: ")
