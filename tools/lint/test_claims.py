# SPDX-License-Identifier: MIT
"""Planted faults that the claims lint must find."""

from __future__ import annotations

from tools.lint import claims
from tools.lint.planted import Tree

GOLDEN = '{"x86_64": {"malloc": 16, "free": 29}}'
ROW = "| `malloc` up to 32 KiB, cached | wait-free | {} [fast] | yes |\n"
GOAL = "| malloc(32) + free | {} | – | disassembly of the fast path |\n"
MATRIX = "| kernel | C library | path |\n|---|---|---|\n| amd64 6.1.0 | glibc 2.36 | per-CPU |\n"
STACK = "## Stack\n\n| call | rseq |\n|---|---|\n| `malloc` | 100 |\n| `freeway_heap_*` | 100 |\n"


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in claims.check(tree.root)]


def test_what_is_so_is_accepted(tree: Tree) -> None:
    tree.write("tests/whole/golden/fast_path.json", GOLDEN)
    tree.write(
        "tests/whole/golden/exported_symbols.txt", "# symbols\n_Znwm\nfreeway_heap_new\nfreeway_malloc\nmalloc\n"
    )
    tree.write("GUARANTEES.md", ROW.format(16) + STACK)
    tree.write("docs/benchmarks.md", GOAL.format(45))
    tree.write("docs/matrix.md", MATRIX)
    assert messages(tree) == []


def test_another_count_of_instructions_than_the_golden_one_is_found(tree: Tree) -> None:
    tree.write("tests/whole/golden/fast_path.json", GOLDEN)
    tree.write("GUARANTEES.md", ROW.format(15))
    tree.write("docs/benchmarks.md", GOAL.format(35))
    guarantees, benchmarks = messages(tree)
    assert "malloc has 16" in guarantees and "a pair has 45" in benchmarks


def test_another_count_in_the_fast_paths_head_is_found(tree: Tree) -> None:
    tree.write("tests/whole/golden/fast_path.json", GOLDEN)
    tree.source("src/malloc/x86_64/fast_path.S", "// Counted by tests/whole/golden: 16 instructions malloc, 29 free.\n")
    assert messages(tree) == []
    tree.source("src/malloc/x86_64/fast_path.S", "// Counted by tests/whole/golden: 16 instructions malloc, 19 free.\n")
    (message,) = messages(tree)
    assert message.startswith("src/malloc/x86_64/fast_path.S:2: 16 and 29")


def test_more_instructions_without_rseq_than_the_golden_ones_are_found(tree: Tree) -> None:
    tree.write(
        "tests/whole/golden/fast_path.json",
        '{"x86_64": {"malloc": 16, "free": 29, "owned_malloc": 34, "owned_free": 60}}',
    )
    table = (
        "| Instructions | freeway | freeway-no-rseq |\n|---|---:|---:|\n| malloc(32) + free | – | {} | callgrind |\n"
    )
    for count in ("93", "94", "–"):
        tree.write("docs/benchmarks.md", table.format(count))
        assert messages(tree) == []
    tree.write("docs/benchmarks.md", table.format("385"))
    (message,) = messages(tree)
    assert message.startswith("docs/benchmarks.md:3: without rseq a pair has at most 94")


def test_a_function_without_a_word_on_its_stack_is_found(tree: Tree) -> None:
    tree.write("tests/whole/golden/exported_symbols.txt", "freeway_malloc\nfreeway_idle\nfreeway_heap_trim\n")
    tree.write("GUARANTEES.md", STACK)
    (message,) = messages(tree)
    assert "freeway_idle" in message


def test_a_machine_that_says_nothing_and_one_that_is_there_twice_are_found(tree: Tree) -> None:
    tree.write("docs/matrix.md", MATRIX + "| amd64 ? | any | **?** |\n| amd64 6.1.0 | glibc 2.36 | per-CPU |\n")
    nothing, twice = messages(tree)
    assert ":4:" in nothing and "as in line 3" in twice


def test_an_option_that_there_is_not_is_found_in_a_page(tree: Tree) -> None:
    tree.source("src/os/option_table.h", 'constexpr Option kTable[] = {{"LIMIT", "BYTES", ""}};\n')
    tree.write("docs/page.md", "`FREEWAY_LIMIT=1g`, `FREEWAY_LIB`, FREEWAY_NOT_OURS\n")
    assert messages(tree) == []
    tree.write("docs/page.md", "`FREEWAY_LIMITS=1g`\n")
    (message,) = messages(tree)
    assert message == "docs/page.md:1: FREEWAY_LIMITS is no option in src/os/option_table.h"
