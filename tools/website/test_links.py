# SPDX-License-Identifier: MIT
"""Planted faults that the check of a built site must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.website import links

OTHER = '<html><body><h1 id="top">x</h1><a name="old"></a></body></html>'


def faults(folder: Path, body: str, head: str = "") -> list[str]:
    (folder / "sub").mkdir()
    (folder / "sub/other.html").write_text(OTHER)
    (folder / "picture.svg").write_text("<svg/>")
    (folder / "index.html").write_text(f'<html><head>{head}</head><body><h2 id="here">h</h2>{body}</body></html>')
    return links.check(folder)


@pytest.mark.parametrize(
    "body",
    [
        '<a href="sub/other.html">x</a>',
        '<a href="sub/other.html#top">x</a>',
        '<a href="sub/other.html#old">x</a>',
        '<a href="#here">x</a>',
        '<a href=".">x</a>',
        '<a href="https://example.org/none">x</a>',
        '<img src="picture.svg">',
        "<p>a - b | c</p>",
        "<p><code>- one\n| a |\n[x](y)</code></p>",
    ],
)
def test_what_is_right_is_accepted(tmp_path: Path, body: str) -> None:
    assert faults(tmp_path, body, '<link rel="canonical" href="https://example.org/">') == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('<a href="none.html">x</a>', "none.html"),
        ('<a href="sub">x</a>', "sub"),
        ('<a href="../outside.html">x</a>', "outside"),
        ('<a href="/sub/other.html">x</a>', "top of a server"),
        ('<a href="sub/other.html#none">x</a>', "no such heading"),
        ('<a href="#none">x</a>', "no such heading"),
        ('<img src="none.svg">', "none.svg"),
        ('<img src="https://example.org/x.svg">', "from the network"),
        ('<script src="//example.org/x.js"></script>', "from the network"),
        ("<p>words\n- one</p>", "shows Markdown"),
        ("<p>words\n2. two</p>", "shows Markdown"),
        ("<p>words\n| a | b |</p>", "shows Markdown"),
        ("<p>words [x](y.md)</p>", "shows Markdown"),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, body: str, says: str) -> None:
    (fault,) = faults(tmp_path, body)
    assert fault.startswith("index.html: ") and says in fault


def test_a_style_sheet_from_elsewhere_is_found(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "", '<link rel="stylesheet" href="https://example.org/x.css">')
    assert "from the network" in fault


def test_a_folder_without_pages_is_a_fault(tmp_path: Path) -> None:
    assert links.check(tmp_path)
