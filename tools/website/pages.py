# SPDX-License-Identifier: MIT
"""Which files of the repository become pages, and what is changed on the way.

A page is README.md, each document in docs/, and whatever their links lead to, and so on: other documents as they are,
manual pages and sources as pages of their own. Each keeps its place in the tree, so that links stay what they are.
"""

from __future__ import annotations

import html
import posixpath
import re
import shutil
import subprocess
from pathlib import Path, PurePosixPath

FIRST = PurePosixPath("README.md")
CONFIGURATION = "tools/website/mkdocs.yml"
LANGUAGES = {
    ".h": "cpp",
    ".cc": "cpp",
    ".c": "c",
    ".S": "gas",
    ".py": "python",
    ".cmake": "cmake",
    ".yml": "yaml",
    "Dockerfile": "docker",
}
COPIED = {".svg", ".png", ".json", ".css"}
MANUAL = re.compile(r"\.[1-8]$")

_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r" {4}|\t")
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_INTERRUPTING = re.compile(r"(?:[-*]|1\.) ")


class PageError(Exception):
    """Something that leads nowhere, or a tool that is missing."""


def collect(root: Path) -> dict[PurePosixPath, bytes]:
    """The site's files by their paths: documents for the generator, and what is copied."""
    site: dict[PurePosixPath, bytes] = {}
    wanted = [FIRST, *sorted(PurePosixPath(path.relative_to(root).as_posix()) for path in root.glob("docs/**/*.md"))]
    seen = set(wanted)
    while wanted:
        path = wanted.pop(0)
        if path.suffix != ".md":
            site[page_of(path)] = content_of(root, path)
            continue
        source = (root / path).read_text() if (root / path).is_file() else list_of_files(root, path.parent)
        text, targets = translated(root, path, source)
        site[path] = text.encode()
        wanted += sorted(targets - seen)
        seen |= targets
    decisions = root / "docs/decisions"
    if decisions.is_dir():
        site[PurePosixPath("docs/decisions/README.md")] += list_of_decisions(decisions).encode()
    return site


def page_of(path: PurePosixPath) -> PurePosixPath:
    """Where in the site a file of the repository is."""
    return path if path.suffix in COPIED | {".md"} else path.with_name(path.name + ".md")


def translated(root: Path, path: PurePosixPath, text: str) -> tuple[str, set[PurePosixPath]]:
    """A document whose links lead to pages of the site, and the files that they stand for."""
    targets: set[PurePosixPath] = set()

    def page_link(match: re.Match[str]) -> str:
        link, anchor = match[1], match[2] or ""
        if "://" in link or link.startswith("mailto:"):
            return match[0]
        target = PurePosixPath(posixpath.normpath(path.parent / link))
        is_folder = (root / target).is_dir()
        if is_folder:
            target /= "README.md"
        if target.parts[0] == ".." or not ((root / target).is_file() or is_folder):
            raise PageError(f"{path}: a link to {link}, which does not exist")
        targets.add(target)
        return f"]({posixpath.relpath(page_of(target), path.parent)}{anchor})"

    lines: list[str] = []
    fence = ""
    marker = 0  # how wide the marker of the list is that the line belongs to; 0: to none
    loose = False  # whether an empty line was in its item
    for line in text.splitlines():
        marks = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if marks and (not fence or line.strip() == fence):
            fence = "" if fence else marks[1]
        before = lines[-1] if lines else ""
        item = None if fence else (_ITEM if marker or not before else _INTERRUPTING).match(line)
        if item:
            if before and (loose or not marker) and not re.match(r"[#|>]", before):
                lines.append("")  # GitHub lets an item end a paragraph; the generator does not
            marker, loose = len(item[0]), False
        elif line and not line.startswith(" ") and not before:
            marker = 0
        loose = loose or not line
        # What belongs to an item stands below its text for GitHub, and four columns from the edge for the generator.
        inner = bool(marker) and not item and line.startswith(" " * marker)
        own = line[marker:] if inner else line
        prose = own if fence or _CODE.match(own) else _LINK.sub(page_link, own)
        lines.append(" " * 4 + prose if inner else prose)
    return "\n".join(lines) + "\n", targets


def content_of(root: Path, path: PurePosixPath) -> bytes:
    """The page of a file that is no document, or the file itself."""
    if path.suffix in COPIED:
        return (root / path).read_bytes()
    if MANUAL.search(path.name):
        return manual_page(root / path).encode()
    text = (root / path).read_text()
    language = LANGUAGES.get(path.suffix) or LANGUAGES.get(path.name, "text")
    fence = "~" * max(3, *(len(run) + 1 for run in re.findall(r"^~+", text, flags=re.MULTILINE) or [""]))
    # What is searched for is in the documents; the sources' words would only stand before it.
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n".encode()


def manual_page(path: Path) -> str:
    """A manual page as a document with HTML in it."""
    if shutil.which("mandoc") is None:
        raise PageError("mandoc is missing, which makes pages of the manual pages (Debian's package mandoc)")
    command = ["mandoc", "-T", "html", "-O", "fragment", "-K", "utf-8", path]
    body = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    name, section = path.stem, path.suffix[1:]
    return f'# {html.escape(name)}({section})\n\n<div class="manual">\n{body}\n</div>\n'


def list_of_decisions(folder: Path) -> str:
    """Each decision's title, with a link to it: what a reader of the folder sees as file names."""
    titles = {path.name: path.read_text().splitlines()[0].lstrip("# ") for path in sorted(folder.glob("[0-9]*.md"))}
    return "\n" + "".join(f"- [{title}]({name})\n" for name, title in titles.items())


def list_of_files(root: Path, folder: PurePosixPath) -> str:
    """The page of a folder without a README.md: its files' names."""
    names = sorted(path.name for path in (root / folder).iterdir() if path.is_file())
    return f"# {folder}\n\n" + "".join(f"- `{name}`\n" for name in names)


def write(site: dict[PurePosixPath, bytes], folder: Path) -> None:
    """Lays the pages out for the generator."""
    for path, content in site.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    style = Path(__file__).with_name("website.css")
    shutil.copy(style, folder / style.name)


def configuration(root: Path, folder: Path) -> str:
    """The generator's configuration, with the folders of this build."""
    return (root / CONFIGURATION).read_text() + f"docs_dir: {folder}/pages\nsite_dir: {folder}/html\n"
