# SPDX-License-Identifier: MIT
"""Planted faults that the lint of the proof must find."""

from __future__ import annotations

import pytest

from tools.lint import proven
from tools.lint.planted import Tree

HEADER = """void push(u32 node) {
  f(push(node));  // a call
  Env::step("stack.push");
}
"""
TIES = """# what stands for what
src/sync/stack.h push 00000000 push_spec
src/sync/stack.h "stack.push" push_spec
"""


@pytest.fixture
def proved(tree: Tree) -> Tree:
    """A tree whose one function is proved."""
    tree.source("src/sync/stack.h", HEADER)
    tree.write("proof/stack.v", "Lemma push_spec : True.\n")
    tree.write("proof/ties.txt", TIES)
    proven.again(tree.root)
    return tree


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in proven.check(tree.root)]


def test_what_was_proved_is_accepted(proved: Tree) -> None:
    assert messages(proved) == []


def test_a_comment_changes_nothing(proved: Tree) -> None:
    proved.source("src/sync/stack.h", HEADER.replace("a call", "no definition"))
    assert messages(proved) == []


def test_another_body_is_found(proved: Tree) -> None:
    proved.source("src/sync/stack.h", HEADER.replace("f(", "g("))
    (message,) = messages(proved)
    assert message.startswith("proof/ties.txt:2: ") and "is not what was proved" in message


def test_a_function_that_is_gone_is_found(proved: Tree) -> None:
    proved.source("src/sync/stack.h", HEADER.replace("void push", "void put"))
    (message,) = messages(proved)
    assert "has no function push" in message


def test_a_lemma_that_is_gone_is_found(proved: Tree) -> None:
    proved.write("proof/stack.v", "Lemma pop_spec : True.\n")
    assert len(messages(proved)) == 2


def test_another_definition_is_found(proved: Tree) -> None:
    definition = "Definition free (a : Z) : Prop :=\n  a = 0 (* free *).\n"
    proved.write("proof/stack.v", "Lemma push_spec : True.\n" + definition)
    proved.write("proof/ties.txt", TIES + "src/sync/stack.h push 00000000 push_spec,free=00000000\n")
    proven.again(proved.root)
    assert messages(proved) == []
    proved.write("proof/stack.v", "Lemma push_spec : True.\n" + definition.replace("free *", "or not *"))
    assert messages(proved) == []
    proved.write("proof/stack.v", "Lemma push_spec : True.\n" + definition.replace("a = 0", "a = 1"))
    (message,) = messages(proved)
    assert message.startswith("proof/ties.txt:4: free of ")


def test_a_new_step_is_found(proved: Tree) -> None:
    proved.source("src/sync/stack.h", HEADER + 'void pop() { Env::step("stack.pop"); }\n')
    (message,) = messages(proved)
    assert message.startswith("src/sync/stack.h:1: ") and '"stack.pop"' in message


def test_a_step_that_is_gone_is_found(proved: Tree) -> None:
    proved.write("proof/ties.txt", TIES + 'src/sync/stack.h "stack.pop" - no reason\n')
    proven.again(proved.root)
    (message,) = messages(proved)
    assert 'has no step "stack.pop"' in message
