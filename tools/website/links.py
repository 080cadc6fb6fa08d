# SPDX-License-Identifier: MIT
"""What may be wrong with a site that was built.

Links, headings and pictures that are not there, Markdown that was not understood, and whatever a page would fetch from
elsewhere. Links to other sites are not followed: a check must not need the network.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {
    ("link", "href"),
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("iframe", "src"),
    ("object", "data"),
}
FOLLOWED = {("a", "href")}
# Of <link>, what only names a page does not fetch it.
NAMES_ONLY = {"canonical", "prev", "next", "alternate"}
# A list or a table that needs an empty line before it, and had none; a link that was not one.
RAW_MARKDOWN = re.compile(r"(?m)^\s*(?:[-*] \S.*|\|.*\|\s*$)|(?<=\n)\d\. \S.*|\]\([^)\s]+\)")


@dataclass
class Page(HTMLParser):
    """What a page has and wants."""

    anchors: set[str] = field(default_factory=set)
    fetched: list[str] = field(default_factory=list)
    followed: list[str] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)
    in_paragraph: bool = False
    in_code: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        for name, value in values.items():
            if (tag, name) in FOLLOWED:
                self.followed.append(value)
            elif (tag, name) in FETCHED and not (tag == "link" and values.get("rel") in NAMES_ONLY):
                self.fetched.append(value)
        if tag == "p":
            self.in_paragraph = True
            self.paragraphs.append("")
        if tag == "code":
            self.in_code = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self.in_paragraph = False
        if tag == "code":
            self.in_code = False

    def handle_data(self, data: str) -> None:
        if self.in_paragraph and not self.in_code:
            self.paragraphs[-1] += data


def read(path: Path) -> Page:
    """The page of a file."""
    page = Page()
    page.feed(path.read_text())
    page.close()
    return page


def check(folder: Path) -> list[str]:
    """All that is wrong with the site in `folder`, a line each."""
    pages = {path: read(path) for path in sorted(folder.rglob("*.html"))}
    faults = [] if pages else [f"{folder}: no pages"]
    for path, page in pages.items():
        shown = path.relative_to(folder)
        for address in page.fetched:
            if urlsplit(address).netloc:
                faults.append(f"{shown}: fetches {address} from the network")
        for address in page.fetched + page.followed:
            fault = _fault_of(folder, pages, path, address)
            if fault:
                faults.append(f"{shown}: {fault}")
        for text in page.paragraphs:
            raw = RAW_MARKDOWN.search(text)
            if raw:
                faults.append(f"{shown}: shows Markdown as it is: {raw[0].strip()[:60]!r}")
    return faults


def _fault_of(folder: Path, pages: dict[Path, Page], path: Path, address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or address in {"", "."}:
        return ""
    if parts.path.startswith("/"):
        return f"a link to {address}, which works only at the top of a server"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(folder.resolve()) or not target.is_file():
        return f"a link to {address}, which does not exist"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return f"a link to {address}, and no such heading is there"
    return ""
