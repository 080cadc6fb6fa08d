# SPDX-License-Identifier: MIT
"""Planted touches after the last touch that the lint must find, and code that it must accept."""

from __future__ import annotations

import pytest

from tools.lint import last_touch
from tools.lint.planted import Tree


def messages(tree: Tree, text: str, path: str = "src/superblock/superblocks.h") -> list[str]:
    tree.source(path, text)
    return [str(finding) for finding in last_touch.check(tree.root)]


def body(*lines: str) -> str:
    """A function with one statement a line; the first of them is line 3 of the file."""
    return "void f(unsigned d) {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


ACCEPTED = {
    "nothing follows": ["use(desc);", "give(desc);  // LAST TOUCH: desc"],
    "only locals follow": ["give(desc);  // LAST TOUCH: desc", "return size;"],
    "set anew": ["give(desc);  // LAST TOUCH: desc", "desc = other();", "use(desc);"],
    "declared anew": ["{ give(desc);  // LAST TOUCH: desc", "}", "Descriptor& desc = g();", "use(desc);"],
    "the other branch": ["if (a) {", "give(desc);  // LAST TOUCH: desc", "} else {", "use(desc);", "}"],
    "the branch returned": ["if (a) {", "give(desc);  // LAST TOUCH: desc", "return;", "}", "use(desc);"],
    "set anew each round": ["while (unsigned x = pop()) {", "use(x);", "give(x);  // LAST TOUCH: x", "}"],
    "a member of that name": ["give(desc);  // LAST TOUCH: desc", "use(other.desc, other->desc);"],
    "in a comment": ["give(desc);  // LAST TOUCH: desc", "g();  // desc is gone"],
    "the other case": [
        "switch (a) {",
        "case 1:",
        "give(desc);  // LAST TOUCH: desc",
        "break;",
        "case 2:",
        "use(desc);",
        "}",
    ],
    "the loop's own retry": ["do {", "g(desc);", "} while (!desc.cas(a, b));  // LAST TOUCH: desc"],
    "an empty loop's retry": ["while (!desc.cas(a, b));  // LAST TOUCH: desc"],
    "the other function": ["give(desc);  // LAST TOUCH: desc", "}", "void g() {", "use(desc);"],
    "control does not return": ["if (a) {", "give(desc);  // LAST TOUCH: desc", "abort();", "}", "use(desc);"],
}

FOUND = {
    "the next statement": ["give(desc);  // LAST TOUCH: desc", "use(desc);"],
    "the mark on its own line": ["give(desc);", "// LAST TOUCH: desc", "use(desc);"],
    "through a member": ["give(desc);  // LAST TOUCH: desc", "return desc->size;"],
    "a store through it": ["give(desc);  // LAST TOUCH: desc", "*desc = 0;"],
    "in its own new value": ["give(desc);  // LAST TOUCH: desc", "desc = next(desc);"],
    "inside a block": ["give(desc);  // LAST TOUCH: desc", "if (a) { use(desc); }"],
    "in a condition": ["give(desc);  // LAST TOUCH: desc", "if (desc.size > 0) g();"],
    "after the block": ["if (a) {", "give(desc);  // LAST TOUCH: desc", "}", "use(desc);"],
    "after a branch that did not leave": [
        "if (a) {",
        "give(desc);  // LAST TOUCH: desc",
        "} else return;",
        "use(desc);",
    ],
    "in the loop's next round": ["for (;;) {", "use(desc);", "give(desc);  // LAST TOUCH: desc", "}"],
    "after a break": ["for (;;) {", "give(desc);  // LAST TOUCH: desc", "break;", "}", "use(desc);"],
    "by falling through": ["switch (a) {", "case 1:", "give(desc);  // LAST TOUCH: desc", "case 2:", "use(desc);", "}"],
    "in a lambda": ["give(desc);  // LAST TOUCH: desc", "each([&](int i) { use(desc, i); });"],
    "after a do loop": ["do {", "g();", "} while (!desc.cas(a, b));  // LAST TOUCH: desc", "use(desc);"],
    "the second name": ["give(a, desc);  // LAST TOUCH: a, desc", "use(desc);"],
    "as a macro's argument": ["give(desc);  // LAST TOUCH: desc", "FREEWAY_CHECK(desc.size == 0);"],
}


@pytest.mark.parametrize("lines", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(tree: Tree, lines: list[str]) -> None:
    assert messages(tree, body(*lines)) == []


@pytest.mark.parametrize("lines", FOUND.values(), ids=FOUND.keys())
def test_found(tree: Tree, lines: list[str]) -> None:
    found = messages(tree, body(*lines))
    assert found
    assert all("is touched after its last touch" in message for message in found)


def test_the_fault_names_its_line(tree: Tree) -> None:
    (message,) = messages(tree, body("give(desc);  // LAST TOUCH: desc", "", "use(desc);"))
    assert message.startswith("src/superblock/superblocks.h:5: 'desc' ")
    assert message.endswith("on line 3")


def test_a_push_hands_over_without_a_mark(tree: Tree) -> None:
    (message,) = messages(tree, body("list_.push(d, links());", "use(d);"))
    assert "'d' is touched after its last touch on line 3" in message
    assert messages(tree, body("list_.push(d, links());", "return;")) == []


def test_a_push_takes_references_of_the_descriptor_along(tree: Tree) -> None:
    lines = ["Descriptor<Env>& desc = backing_.descriptor(d);", "list_.push(d, links());", "desc.owed.set(0);"]
    (message,) = messages(tree, body(*lines))
    assert "'desc' is touched" in message


def test_functions_that_push_their_parameter_hand_over_too(tree: Tree) -> None:
    helpers = (
        "void list(unsigned c, unsigned d) { lists_[c].push(d, links()); }\nvoid settle(unsigned d) { list(0, d); }\n"
    )
    (message,) = messages(tree, helpers + body("settle(d);", "use(d);"))
    assert "'d' is touched" in message
    assert messages(tree, helpers + body("settle(d);", "return;")) == []
    assert messages(tree, helpers + body("n = pure::settle(d);", "use(d);")) == []


def test_layers_above_are_checked_for_what_they_hand_over(tree: Tree) -> None:
    tree.source("src/superblock/superblocks.h", "void let_go(unsigned d) { list_.push(d, links()); }\n")
    (message,) = messages(tree, body("superblocks_.let_go(d);", "use(d);"), "src/cache/slab.h")
    assert message.startswith("src/cache/slab.h:4: ")
    assert messages(tree, body("let_go(d);", "use(d);"), "src/cache/slab.h") == []
    assert messages(tree, body("numbers_.push(d);", "use(d);"), "src/cache/slab.h") == []


@pytest.mark.parametrize("step", ["cas_acq_rel", "cas_acquire"])
def test_a_giving_step_needs_a_mark(tree: Tree, step: str) -> None:
    (message,) = messages(tree, body(f"if (desc.anchor.{step}(a, b)) g();"))
    assert "is not followed by '// LAST TOUCH" in message
    assert messages(tree, body(f"if (desc.anchor.{step}(a, b)) {{", "// LAST TOUCH: desc", "g();", "}")) == []
    assert messages(tree, body("desc.anchor.cas_acquire_acquire(a, b);", "use(desc);")) == []


def test_a_mark_outside_of_functions_is_found(tree: Tree) -> None:
    (message,) = messages(tree, "int a;  // LAST TOUCH: a\n")
    assert "outside of a function" in message
