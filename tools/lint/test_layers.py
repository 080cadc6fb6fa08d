# SPDX-License-Identifier: MIT
"""Planted faults that the layer lint must find, and layerings that it must accept."""

from __future__ import annotations

import pytest

from tools.lint import layers
from tools.lint.planted import Tree


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in layers.check(tree.root)]


def test_a_tree_without_faults_is_accepted(tree: Tree) -> None:
    tree.source("src/sync/stack.h", '#include "base/integers.h"\n#include "sync/tag.h"\n#include <atomic>\n')
    tree.source("src/cache/heap.h", '#include "cache/word.h"\n#include "freeway/freeway.h"\n')
    tree.source("src/arch/x86_64/malloc.S", '#include "section.inc"\n')
    tree.source("src/sync/prose.h", '// never #include "cache/slab.h" here\n')
    assert messages(tree) == []


@pytest.mark.parametrize(
    ("include", "complaint"),
    [
        ('#include "cache/slab.h"', "cache is above"),
        ('#  include  "superblock/anchor.h"', "superblock is above"),
        ('#include "stack.h"', "without a folder"),
        ('#include "../base/integers.h"', "'..'"),
        ('#include "elsewhere/thing.h"', "no layer"),
    ],
)
def test_a_forbidden_include_is_found(tree: Tree, include: str, complaint: str) -> None:
    tree.source("src/sync/stack.h", f"\n{include}\n")
    (message,) = messages(tree)
    assert message.startswith("src/sync/stack.h:3: ")
    assert complaint in message


@pytest.mark.parametrize(
    ("include", "complaint"),
    [
        ('#include "papers/two/heap.h"', "papers/one may not use papers/two"),
        ('#include "abi/entry.h"', "papers may only use what is below pages"),
        ('#include "elsewhere/thing.h"', "no layer"),
    ],
)
def test_papers_use_neither_each_other_nor_the_malloc(tree: Tree, include: str, complaint: str) -> None:
    tree.source("papers/one/heap.cc", f'#include "papers/one/word.h"\n#include "papers/front/front.h"\n{include}\n')
    (message,) = messages(tree)
    assert complaint in message


def test_a_room_without_folders_uses_itself_and_the_layers_up_to_its_highest(tree: Tree) -> None:
    tree.source("shared/heap.h", '#include "shared/words.h"\n#include "cache/slab.h"\n#include "abi/entry.h"\n')
    (message,) = messages(tree)
    assert "shared may only use what is below cache, and abi is above" in message


def test_nothing_in_src_uses_a_paper(tree: Tree) -> None:
    tree.source("src/abi/malloc.cc", '#include "papers/one/heap.h"\n')
    (message,) = messages(tree)
    assert "'papers' is no layer" in message


def test_assembly_is_checked_too(tree: Tree) -> None:
    tree.source("src/arch/x86_64/malloc.S", '#include "cache/layout.h"\n')
    (message,) = messages(tree)
    assert "cache is above" in message


def test_a_folder_that_is_no_layer_is_found(tree: Tree) -> None:
    tree.source("src/extra/thing.h", "")
    tree.write("src/extra/README.md", "# extra\n")
    assert messages(tree) == ["src/extra:1: this folder is not in src/LAYERS"]


def test_a_layer_without_folder_or_listed_twice_is_found(tree: Tree) -> None:
    tree.write("src/LAYERS", "\n".join([*tree.layers, "top", "base"]) + "\n")
    found = messages(tree)
    assert any("there is no folder src/top" in message for message in found)
    assert any("'base' is listed twice" in message for message in found)


def test_a_missing_an_empty_and_a_long_readme_are_found(tree: Tree) -> None:
    (tree.root / "src/sync/README.md").unlink()
    tree.write("src/cache/README.md", "")
    tree.write("src/cache/one/README.md", "line\n" * (layers.README_LINES + 1))
    found = messages(tree)
    assert len(found) == 3
    assert any(message.startswith("src/sync/README.md:1: missing") for message in found)
    assert any(message.startswith("src/cache/README.md:1: is empty") for message in found)
    assert any(message.startswith("src/cache/one/README.md:26: 26 lines") for message in found)


def test_a_tree_without_the_list_is_a_fault(tree: Tree) -> None:
    (tree.root / "src/LAYERS").unlink()
    assert len(messages(tree)) == 1


def test_the_drawing_and_the_page_name_the_layers_in_their_order(tree: Tree) -> None:
    layered = [name for name in (tree.root / "src/LAYERS").read_text().split() if name]
    drawn = "".join(f'<text class="name" x="1">{name}</text>\n' for name in ["papers/", *layered[::-1]])
    rows = "".join(f"| `{name}` | it | `a.h` |\n" for name in layered)
    tree.source("docs/layers.svg", drawn)
    tree.source("docs/architecture.md", rows)
    assert messages(tree) == []
    tree.source("docs/layers.svg", drawn.replace(layered[0], "elsewhere"))
    tree.source("docs/architecture.md", rows + f"| `{layered[0]}` | again | `a.h` |\n")
    assert [message.split(":")[0] for message in messages(tree)] == ["docs/layers.svg", "docs/architecture.md"]
