# SPDX-License-Identifier: MIT
"""Planted faults that the memory-order lint must find, and labels that it must accept."""

from __future__ import annotations

import pytest

from tools.lint import orders
from tools.lint.planted import Tree


def messages(tree: Tree, text: str) -> list[str]:
    tree.source("src/sync/stack.h", text)
    return [str(finding) for finding in orders.check(tree.root)]


def test_labelled_pairs_are_accepted(tree: Tree) -> None:
    text = """// Orders  [R1] publishes the node; [A1] sees it
void push() { head_.store_release(n); }  // [R1]
Node* pop() { return head_->load_acquire(); }  // [A1] pairs with [R1]
int peek() { return head_.load_relaxed(); }
"""
    assert messages(tree, text) == []


def test_every_place_for_the_comment_is_accepted(tree: Tree) -> None:
    text = """void f() {
  while (!head_.cas_release(head, next(head,
                                       node)));  // [R1] pairs with [A1] [A2]
  // [A1] pairs with [R1]
  Node* first = some_rather_long_expression().load_acquire();
  Env::fence_acquire();  // [A2]
}
"""
    assert messages(tree, text) == []


def test_one_role_may_stand_on_several_operations(tree: Tree) -> None:
    text = """void f() {
  a.store_release(1);    // [R1] pairs with [A1]
  a.fetch_or_acq_rel(2);  // [R1]
  a.load_acquire();      // [A1]
  a.cas_acquire(x, y);   // [A1]
}
"""
    assert messages(tree, text) == []


def test_an_acq_rel_operation_may_carry_both_sides(tree: Tree) -> None:
    text = """void f() {
  a.fetch_add_acq_rel(1);  // [R1] [A1] pairs with [A2] [R2]
  b.load_acquire();        // [A2]
  b.store_release(1);      // [R2]
  c.exchange_acq_rel(1);   // [R3] pairs with [A4]; [A3] pairs with [R4]
  c.load_acquire();        // [A4]
  c.store_release(1);      // [R4]
}
"""
    assert messages(tree, text) == []


@pytest.mark.parametrize(
    "operation",
    [
        "a.load_acquire()",
        "a->store_release(1)",
        "a.exchange_acq_rel(1)",
        "a.fetch_and_release(1)",
        "a.cas_acquire_acquire(x, y)",
        "a.cas_relaxed_acquire(x, y)",
        "a.template cas_release(x, y)",
        "Env::fence_acquire()",
        "fence_acquire()",
    ],
)
def test_an_operation_without_a_label_is_found(tree: Tree, operation: str) -> None:
    (message,) = messages(tree, f"void f() {{\n  if ({operation}) g();\n}}\n")
    assert message.startswith("src/sync/stack.h:3: ")
    assert "has no label" in message


def test_a_comment_without_a_label_is_not_one(tree: Tree) -> None:
    (message,) = messages(tree, "void f() {\n  a.load_acquire();  // sees the node\n}\n")
    assert "has no label" in message


def test_the_next_statements_label_does_not_count(tree: Tree) -> None:
    text = """void f() {
  a.store_release(1);
  b.store_release(1);  // [R1]
  b.load_acquire();  // [A1] pairs with [R1]
}
"""
    (message,) = messages(tree, text)
    assert message.startswith("src/sync/stack.h:3: ")


def test_one_comment_above_does_not_serve_two_lines(tree: Tree) -> None:
    text = """void f() {
  // [R1] pairs with [A1]
  a.store_release(1);
  b.store_release(1);
  a.load_acquire();  // [A1]
}
"""
    (message,) = messages(tree, text)
    assert message.startswith("src/sync/stack.h:5: ")


def test_a_partner_that_does_not_exist_is_found(tree: Tree) -> None:
    found = messages(tree, "void f() {\n  a.load_acquire();  // [A1] pairs with [R7]\n}\n")
    assert any("pairs with [R7]: no such label" in message for message in found)


def test_a_label_without_any_partner_is_found(tree: Tree) -> None:
    (message,) = messages(tree, "void f() {\n  a.store_release(1);  // [R1]\n}\n")
    assert "[R1] pairs with nothing" in message


def test_two_acquires_do_not_make_a_pair(tree: Tree) -> None:
    text = """void f() {
  a.load_acquire();  // [A1] pairs with [A2]
  a.load_acquire();  // [A2]
}
"""
    assert any("one must release and the other acquire" in message for message in messages(tree, text))


def test_a_label_on_the_wrong_side_is_found(tree: Tree) -> None:
    text = """void f() {
  a.load_acquire();  // [R1] pairs with [A1]
  a.cas_release(x, y);  // [A1]
}
"""
    found = messages(tree, text)
    assert any("[R1] stands on an operation that does not release" in message for message in found)
    assert any("[A1] stands on an operation that does not acquire" in message for message in found)


def test_a_role_that_changes_sides_is_found(tree: Tree) -> None:
    text = """void f() {
  a.load_acquire();  // [S1] pairs with [S2]
  a.store_release(1);  // [S1]
  a.exchange_acq_rel(1);  // [S2]
}
"""
    assert any("releases in one place and acquires in another" in message for message in messages(tree, text))


def test_a_weakened_operation_that_kept_its_label_is_found(tree: Tree) -> None:
    text = """void f() {
  a.store_relaxed(1);  // [R1] pairs with [A1]
  a.load_acquire();  // [A1]
}
"""
    assert any("a label on a relaxed operation" in message for message in messages(tree, text))


def test_a_header_that_speaks_of_a_missing_label_is_found(tree: Tree) -> None:
    (message,) = messages(tree, "// Orders  [R1] publishes\nvoid f();\n")
    assert "the comment speaks of [R1]" in message


def test_partners_in_other_files(tree: Tree) -> None:
    tree.source("src/sync/word.h", "void g() { w.store_release(1); }  // [R1]\n")
    assert messages(tree, "void f() {\n  w.load_acquire();  // [A1] pairs with word.h:[R1]\n}\n") == []
    found = messages(tree, "void f() {\n  w.load_acquire();  // [A1] pairs with gone.h:[R1]\n}\n")
    assert any("no such file" in message for message in found)
    tree.source("src/cache/word.h", "")
    found = messages(tree, "void f() {\n  w.load_acquire();  // [A1] pairs with word.h:[R1]\n}\n")
    assert any("several files" in message for message in found)
    assert messages(tree, "void f() {\n  w.load_acquire();  // [A1] pairs with sync/word.h:[R1]\n}\n") == []


def test_definitions_are_not_calls(tree: Tree) -> None:
    text = """struct Env {
  static void fence_acquire() { freeway::fence_acquire(); }
  bool cas_acquire(T& a, T b);
};
"""
    assert messages(tree, text) == []
    tree.source("src/arch/atomic.h", "T load() { return other.load_acquire(); }\n")
    assert orders.check(tree.root) == []


def test_labels_in_assembly_fit_either_side(tree: Tree) -> None:
    tree.source("src/arch/x86_64/malloc.S", "  mov %rax, (%rdi)  // [R1] pairs with sync/stack.h:[A1]\n")
    assert messages(tree, "void f() { a.load_acquire(); }  // [A1] pairs with malloc.S:[R1]\n") == []
