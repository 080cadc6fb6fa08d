# SPDX-License-Identifier: MIT
"""Planted faults that the lint of names must find, and names that it must accept."""

from __future__ import annotations

import pytest

from tools.lint import upwards
from tools.lint.planted import Tree

SECTIONS = """.macro ENTER name
    .globl  freeway_do_\\name
freeway_do_\\name:
.endm
.macro TWICE name, other
    ENTER \\name
.endm
"""


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in upwards.check(tree.root)]


def test_names_of_the_same_room_and_of_lower_ones_are_accepted(tree: Tree) -> None:
    tree.source("src/arch/x86_64/section.inc", SECTIONS)
    tree.source("src/cache/x86_64/pop.S", "    TWICE pop, 1\n    jmp freeway_hot\n    .reloc 0, NONE, freeway_calloc\n")
    tree.source("src/cache/slab.h", 'extern "C" {\nint freeway_do_pop(int);  // freeway_calloc(\n}\n')
    tree.source("src/cache/hot.h", 'extern "C" int freeway_hot;\n')
    tree.source("src/cache/hot.cc", "int freeway_hot = {};\n")
    tree.source(
        "src/abi/malloc.cc", 'extern "C" {\nint freeway_calloc(int a) noexcept { return freeway_do_pop(a); }\n}\n'
    )
    assert messages(tree) == []


@pytest.mark.parametrize(
    "declaration",
    [
        'extern "C" HIDDEN int freeway_slow(int size);',
        'extern "C" {\nint freeway_hot;\nHIDDEN int freeway_slow(int size,\n  int other);\n}',
        'extern "C" const int freeway_limit;',
        'extern "C" int freeway_do_pop();',
    ],
)
def test_a_declaration_below_the_definition_is_found(tree: Tree, declaration: str) -> None:
    tree.source("src/sync/stack.h", declaration + "\n")
    tree.source("src/cache/x86_64/section.S", SECTIONS + "    TWICE pop, 2\n")
    tree.source("src/abi/slow.cc", "int freeway_slow(int size) {\n}\nint freeway_limit = 3;\n")
    (message,) = messages(tree)
    assert message.startswith("src/sync/stack.h:")
    assert "which is above" in message


def test_a_jump_upwards_is_found(tree: Tree) -> None:
    tree.source("src/arch/x86_64/malloc.S", "    jmp     freeway_slow\n")
    tree.source("src/abi/slow.cc", 'extern "C" int freeway_slow(int size) {\n}\n')
    assert messages(tree) == ["src/arch/x86_64/malloc.S:2: freeway_slow is defined in abi, which is above"]


def test_what_several_rooms_define_is_judged_by_the_lowest(tree: Tree) -> None:
    tree.source("src/sync/stack.h", 'extern "C" int freeway_slow(int size);\n')
    tree.source("src/base/slow.cc", "int freeway_slow(int size) {\n}\n")
    tree.source("src/abi/slow.cc", "int freeway_slow(int size) {\n}\n")
    assert messages(tree) == []
