# SPDX-License-Identifier: MIT
"""Layers: a folder of src/ may include its own files and those of folders below it, as src/LAYERS orders them.

This keeps every layer readable and testable on its own: nothing in it can depend on what is built upon it. The rooms
beside src/ stand on its lower layers: a folder of papers/ may use them, papers/front and itself; shared/ those up to
cache. Nothing in src/ uses a room.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.lint.source import Finding, library_files, split_lines

README_LINES = 25
PUBLIC_HEADER_FOLDER = "freeway"  # include/freeway, open to every layer
# Of rooms beside src/: the highest layer that each may use; the folder that its others share; what else of src/.
HIGHEST_FOR_ROOM = {"papers": "pages", "shared": "cache"}
SHARED_FOLDER = "front"
FOR_ROOM = {
    "look/explanation.h",
    "look/summary.h",
    "malloc/family.h",
    "malloc/x86_64/vfork.S",
    "malloc/aarch64/vfork.S",
}
# Below a layer these hold one processor's part of it, and need no README of their own.
PROCESSOR_FOLDERS = {"x86_64", "aarch64"}

DRAWING, PAGE = "docs/layers.svg", "docs/architecture.md"

_DRAWN = re.compile(r'class="name"[^>]*>([^<]+)<')
_LISTED = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def check(root: Path) -> list[Finding]:
    """All faults of layering under `root`."""
    layers_file = root / "src" / "LAYERS"
    if not layers_file.is_file():
        return [Finding("src/LAYERS", 1, "missing: it lists the folders of src/, lowest first")]
    layers = layers_of(root)
    findings = [
        Finding("src/LAYERS", 1, f"layer '{name}' is listed twice") for name in set(layers) if layers.count(name) > 1
    ]
    findings += _check_folders(root, layers)
    findings += _check_pages(root, layers)
    for path in library_files(root):
        findings += _check_includes(root, path, layers)
    return findings


def _check_pages(root: Path, layers: list[str]) -> list[Finding]:
    """The drawing has the layers from the highest down, the table of the page from the lowest up."""
    drawing, page = root / DRAWING, root / PAGE
    findings = []
    if drawing.is_file():
        drawn = [name for name in _DRAWN.findall(drawing.read_text()) if not name.endswith("/")]
        if drawn != layers[::-1]:
            findings.append(Finding(DRAWING, 1, f"draws {', '.join(drawn)}: src/LAYERS has others, or another order"))
    if page.is_file():
        listed = [name for name in _LISTED.findall(page.read_text()) if name in layers]
        if listed != layers:
            findings.append(Finding(PAGE, 1, f"lists {', '.join(listed)}: src/LAYERS has others, or another order"))
    return findings


def layers_of(root: Path) -> list[str]:
    """The folders of src/, lowest first."""
    lines = [line.split("#")[0].strip() for line in (root / "src/LAYERS").read_text().splitlines()]
    return [line for line in lines if line]


def _check_folders(root: Path, layers: list[str]) -> list[Finding]:
    findings = []
    folders = sorted(path for path in (root / "src").iterdir() if path.is_dir())
    for folder in folders:
        name = folder.name
        if name not in layers:
            findings.append(Finding(f"src/{name}", 1, "this folder is not in src/LAYERS"))
    present = {folder.name for folder in folders}
    findings += [Finding("src/LAYERS", 1, f"there is no folder src/{name}") for name in layers if name not in present]
    inner = [path for path in (root / "src").rglob("*") if path.is_dir() and path.name not in PROCESSOR_FOLDERS]
    for folder in sorted(inner):
        findings += _check_readme(root, folder)
    return findings


def _check_readme(root: Path, folder: Path) -> list[Finding]:
    readme = folder / "README.md"
    shown = str(readme.relative_to(root))
    if not readme.is_file():
        return [Finding(shown, 1, "missing: what the folder is, what it may use, which file to read first")]
    length = len(readme.read_text().splitlines())
    if length > README_LINES:
        return [Finding(shown, length, f"{length} lines; at most {README_LINES}")]
    if length == 0:
        return [Finding(shown, 1, "is empty")]
    return []


def _check_includes(root: Path, path: Path, layers: list[str]) -> list[Finding]:
    findings = []
    inside = path.parts[1:]  # below src/
    own = inside[0] if len(inside) > 1 else ""
    for line in split_lines((root / path).read_text()):
        match = _INCLUDE.match(line.code)
        if not match:
            continue
        target = match.group(1)
        if path.parts[0] in HIGHEST_FOR_ROOM:
            message = _fault_of_room(target, path.parts[0], inside[0], layers)
        else:
            message = _fault_of_include(target, own, inside, layers)
        if message:
            findings.append(Finding(str(path), line.number, f'#include "{target}": {message}'))
    return findings


def _fault_of_include(target: str, own: str, inside: tuple[str, ...], layers: list[str]) -> str | None:
    parts = Path(target).parts
    if ".." in parts:
        return "written with '..'; name the folder from src/"
    if len(parts) < 2 and own and inside[-2] in PROCESSOR_FOLDERS:
        return None  # pieces of one processor's part lie side by side
    if len(parts) < 2:
        return "without a folder; name it from src/"
    folder = parts[0]
    if folder == PUBLIC_HEADER_FOLDER:
        return None
    if folder not in layers:
        return f"'{folder}' is no layer of src/LAYERS"
    if own not in layers:
        return None  # the unlisted folder is reported once, by itself
    if layers.index(folder) > layers.index(own):
        return f"{own} may only use what is below it, and {folder} is above"
    return None


def _fault_of_room(target: str, room: str, own: str, layers: list[str]) -> str | None:
    parts = Path(target).parts
    if len(parts) < 2 or parts[0] == PUBLIC_HEADER_FOLDER or target in FOR_ROOM:
        return None
    if parts[0] == room:
        inside = len(parts) == 2 or parts[1] in {own, SHARED_FOLDER}
        return None if inside else f"{room}/{own} may not use {room}/{parts[1]}"
    if parts[0] not in layers:
        return f"'{parts[0]}' is no layer of src/LAYERS"
    if layers.index(parts[0]) > layers.index(HIGHEST_FOR_ROOM[room]):
        return f"{room} may only use what is below {HIGHEST_FOR_ROOM[room]}, and {parts[0]} is above"
    return None
