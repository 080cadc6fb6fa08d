# SPDX-License-Identifier: MIT
"""Which files become pages, and what becomes of their links."""

from __future__ import annotations

import re
import shutil
from pathlib import Path, PurePosixPath

import pytest

from tools.website import pages

ROOT = Path(__file__).resolve().parents[2]


def planted(root: Path, **files: str) -> Path:
    """A repository with these files; `__` in a name is a slash, `_` before the suffix's letters a dot."""
    for name, text in files.items():
        path = root / re.sub(r"_(?=[a-zA-Z0-9]+$)", ".", name.replace("__", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def collected(root: Path) -> dict[str, str]:
    return {str(path): content.decode() for path, content in pages.collect(root).items()}


def test_what_is_linked_to_is_a_page_and_so_on(tmp_path: Path) -> None:
    planted(
        tmp_path,
        README_md="[a](docs/a.md#part) [code](src/x.h)\n",
        docs__a_md="[folder](../src/)\n",
        src__README_md="[b](b.md)\n",
        src__b_md="",
        src__lonely_md="",
        src__x_h="int x;\n",
    )
    site = collected(tmp_path)
    assert sorted(site) == ["README.md", "docs/a.md", "src/README.md", "src/b.md", "src/x.h.md"]
    assert site["README.md"] == "[a](docs/a.md#part) [code](src/x.h.md)\n"
    assert site["docs/a.md"] == "[folder](../src/README.md)\n"
    assert "# src/x.h" in site["src/x.h.md"] and "~~~cpp\nint x;\n~~~" in site["src/x.h.md"]


def test_pictures_and_data_are_copied_as_they_are(tmp_path: Path) -> None:
    planted(tmp_path, README_md="![a](docs/a.svg) [d](docs/d.json)\n", docs__a_svg="<svg/>", docs__d_json="{}")
    site = collected(tmp_path)
    assert site["docs/a.svg"] == "<svg/>" and site["docs/d.json"] == "{}"
    assert site["README.md"] == "![a](docs/a.svg) [d](docs/d.json)\n"


@pytest.mark.parametrize("link", ["none.md", "none/", "../outside.md"])
def test_a_link_to_nothing_is_an_error(tmp_path: Path, link: str) -> None:
    planted(tmp_path, README_md=f"[x]({link})\n", src__x_h="")
    with pytest.raises(pages.PageError, match=re.escape(link)):
        pages.collect(tmp_path)


def test_links_in_code_and_to_other_sites_stay(tmp_path: Path) -> None:
    text = "[x](https://example.org/a.md)\n\n    [x](none.md)\n\n```c\n[x](none.md)\n```\n"
    planted(tmp_path, README_md=text)
    assert collected(tmp_path)["README.md"] == text


def test_a_list_right_behind_a_paragraph_gets_the_empty_line_that_the_generator_needs(tmp_path: Path) -> None:
    planted(tmp_path, README_md="Some words\n- one\n- two\n\nIn\n2004. No list\n")
    assert collected(tmp_path)["README.md"] == "Some words\n\n- one\n- two\n\nIn\n2004. No list\n"


def test_what_belongs_to_an_item_is_indented_as_the_generator_needs_it(tmp_path: Path) -> None:
    planted(
        tmp_path, README_md="1. one\n   more\n\n       code [x](y)\n\n   end\n2. two\n\n- a\n  - b\n\nend\n\n    code\n"
    )
    expected = "1. one\n    more\n\n        code [x](y)\n\n    end\n\n2. two\n\n- a\n    - b\n\nend\n\n    code\n"
    assert collected(tmp_path)["README.md"] == expected


def test_a_folder_without_a_readme_is_a_list_of_its_files(tmp_path: Path) -> None:
    planted(tmp_path, README_md="[x](src)\n", src__x_h="", src__a_h="")
    site = collected(tmp_path)
    assert site["README.md"] == "[x](src/README.md)\n"
    assert site["src/README.md"] == "# src\n\n- `a.h`\n- `x.h`\n"


def test_a_source_with_fences_of_its_own_stays_one_block(tmp_path: Path) -> None:
    planted(tmp_path, README_md="[x](x.txt)\n", x_txt="~~~\ncode\n~~~\n")
    assert "~~~~text\n~~~\ncode\n~~~\n~~~~\n" in collected(tmp_path)["x.txt.md"]


def test_decisions_are_listed_by_their_titles(tmp_path: Path) -> None:
    planted(tmp_path, README_md="", docs__decisions__README_md="# D\n")
    (tmp_path / "docs/decisions/001-a.md").write_text("# 001: A thing\n")
    assert "- [001: A thing](001-a.md)" in collected(tmp_path)["docs/decisions/README.md"]


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc here")
def test_a_manual_page_becomes_a_document(tmp_path: Path) -> None:
    page = ".Dd January 1, 2026\n.Dt X 1\n.Os\n.Sh NAME\n.Nm x\n.Nd does things\n"
    planted(tmp_path, README_md="[x](docs/x.1)\n", docs__x_1=page)
    text = collected(tmp_path)["docs/x.1.md"]
    assert text.startswith("# x(1)\n") and 'id="NAME"' in text and re.search(r"does\s+things", text)


def test_the_table_of_contents_names_files_of_this_repository() -> None:
    nav = (ROOT / pages.CONFIGURATION).read_text().partition("\nnav:\n")[2]
    named = re.findall(r": (\S+\.md)$", nav, flags=re.MULTILINE)
    assert len(named) > 20
    for name in named:
        page = PurePosixPath(name)
        assert (ROOT / page).is_file() or (ROOT / page.with_suffix("")).is_file(), name
