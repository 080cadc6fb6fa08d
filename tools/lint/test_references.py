# SPDX-License-Identifier: MIT
"""Planted faults that the references lint must find."""

from __future__ import annotations

import pytest

from tools.lint import references
from tools.lint.planted import Tree


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in references.check(tree.root)]


def test_references_that_lead_somewhere_are_accepted(tree: Tree) -> None:
    tree.source("tests/unit/stack_test.cc", "")
    tree.source("src/sync/stack.h", "// Checked tests/unit/stack_test.cc, and tests/unit\n")
    tree.write(
        "docs/page.md", "`tests/unit/stack_test.cc`, [code](../src/sync/stack.h), [net](https://example.org/a.md)\n"
    )
    assert messages(tree) == []


@pytest.mark.parametrize("path", ["src/sync/stack.h", "src/sync/stack.cc"])
def test_a_test_that_does_not_exist_is_found_in_a_comment(tree: Tree, path: str) -> None:
    tree.source(path, "// Checked tests/unit/stack_test.cc\n")
    (message,) = messages(tree)
    assert message.startswith(path) and "tests/unit/stack_test.cc" in message


def test_a_path_in_code_is_no_reference(tree: Tree) -> None:
    tree.source("src/sync/stack.h", 'const char* name = "tests/unit/none.cc";\n')
    assert messages(tree) == []


@pytest.mark.parametrize("text", ["see `src/sync/none.h`", "[none](../src/sync/none.h)", "[none](none.md#part)"])
def test_a_document_that_names_what_does_not_exist_is_found(tree: Tree, text: str) -> None:
    tree.write("docs/page.md", text + "\n")
    (message,) = messages(tree)
    assert message.startswith("docs/page.md:1: ")


PAGE = """\
# The page
## Two words, `code` and [a link](other.md)
```sh
# no heading
```
## Again
## Again
<a id="own"></a>
"""


@pytest.mark.parametrize("anchor", ["the-page", "two-words-code-and-a-link", "again", "again-1", "own"])
def test_a_link_to_a_heading_is_accepted(tree: Tree, anchor: str) -> None:
    tree.write("docs/other.md", "")
    tree.write("docs/page.md", PAGE + f"[here](#{anchor})\n")
    tree.write("docs/from.md", f"[there](page.md#{anchor})\n")
    assert messages(tree) == []


@pytest.mark.parametrize("anchor", ["the-pages", "no-heading", "again-2"])
def test_a_link_to_a_heading_that_no_page_has_is_found(tree: Tree, anchor: str) -> None:
    tree.write("docs/other.md", "")
    tree.write("docs/page.md", PAGE + f"[here](#{anchor})\n")
    tree.write("docs/from.md", f"[there](page.md#{anchor})\n")
    assert [message.split(":")[0] for message in messages(tree)] == ["docs/from.md", "docs/page.md"]
