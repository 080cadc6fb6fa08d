# SPDX-License-Identifier: MIT
"""Files that are laid out otherwise, which the lint of formatting must find and format."""

from __future__ import annotations

import sys

import pytest

from tools.lint import formatting
from tools.lint.planted import Tree

STYLE = "BasedOnStyle: Google\nColumnLimit: 120\nReflowComments: false\n"
PLAIN = "int one();\n\nint two() { return 2; }\n"


@pytest.fixture
def styled(tree: Tree) -> Tree:
    tree.write(".clang-format", STYLE)
    tree.source("src/sync/stack.h", PLAIN)
    return tree


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in formatting.check(tree.root)]


def test_a_formatted_tree_is_accepted(styled: Tree) -> None:
    styled.write("docs/page.md", "word " * 100)
    assert messages(styled) == []


@pytest.mark.parametrize("path", ["src/sync/other.h", "tests/unit/other.cc", "examples/other.c"])
def test_a_file_that_differs_is_found_once_at_its_first_place(styled: Tree, path: str) -> None:
    styled.source(path, PLAIN + "int   three();\nint   four();\n")
    (message,) = messages(styled)
    assert message.startswith(f"{path}:5: ")
    assert "`make format`" in message


@pytest.mark.parametrize("path", ["src/sync/other.h", "src/malloc/x86_64/other.S"])
def test_a_long_line_is_found_where_nothing_is_formatted(styled: Tree, path: str) -> None:
    styled.source(path, f"// {'é' * 117}\n// {'é' * 118}\n")
    assert messages(styled) == [f"{path}:3: 121 columns; at most 120"]


def test_raw_strings_may_be_as_long_as_they_want(styled: Tree) -> None:
    styled.source("command/page.h", f'const char* page = R"html(\n<p>{"x" * 200}</p>\n)html";\n// {"x" * 118}\n')
    assert messages(styled) == ["command/page.h:5: 121 columns; at most 120"]


def test_make_format_does_what_the_lint_wants(styled: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    styled.source("src/sync/other.h", "int   three( );\n")
    monkeypatch.setattr(sys, "argv", ["formatting", str(styled.root)])
    assert formatting.main() == 0
    assert messages(styled) == []
    assert (styled.root / "src/sync/other.h").read_text().endswith("\nint three();\n")


def test_a_style_that_cannot_be_read_is_no_success(styled: Tree) -> None:
    styled.write(".clang-format", "BasedOnStyle: Nobody's\n")
    with pytest.raises(RuntimeError):
        messages(styled)
