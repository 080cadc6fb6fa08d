# SPDX-License-Identifier: MIT
"""Planted faults that the lint of manual pages must find."""

from __future__ import annotations

import shutil

import pytest

from tools.lint import manual
from tools.lint.planted import Tree

HEAD = ".Dd November 20, 2026\n.Dt FREEWAY 1\n.Os\n.Sh NAME\n.Nm freeway\n.Nd a page\n.Sh DESCRIPTION\n"


def messages(tree: Tree, text: str) -> list[str]:
    tree.write("docs/man/page.1", HEAD + text)
    return [str(finding) for finding in manual.check(tree.root)]


@pytest.mark.parametrize(
    "text", ["In a process.\n", ".Pq it is told Ev NAME , No in base64 .\n", ".Ql freeway options .\n", ".Pq Ql % .\n"]
)
def test_macros_that_are_meant_are_accepted(tree: Tree, text: str) -> None:
    assert messages(tree, text) == []


@pytest.mark.parametrize("text", [".Pq In a process\n", ".Ql - is standard output\n", ".Pq Ql - No is it .\n"])
def test_a_sentence_that_is_a_macro_is_found(tree: Tree, text: str) -> None:
    (message,) = messages(tree, text)
    assert message.startswith("docs/man/page.1:8")


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc here")
def test_what_mandoc_warns_of_is_found(tree: Tree) -> None:
    assert messages(tree, ".El\n")
