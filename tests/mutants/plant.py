# SPDX-License-Identifier: MIT
"""Plants the faults of models in copies of the headers: python3 plant.py OUT FAULTS.diff ...; OUT/done.d: what it read.

A file of faults is a diff without numbers: `@ HEADER`, then hunks, an empty line between two; of a hunk's lines those
with `-` go, those with `+` come, the others stay. What it replaces must be in the header exactly once, else this fails.
Whether a fault acts is asked while the model runs, by `Env::mutant("its name")`; the headers know nothing of it.
"""

import difflib
import os
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
_CALL, _NAME = re.compile(r"mutant\(([^()]*)\)"), re.compile(r'"([^"]+)"')


def all_faults() -> list[Path]:
    return [path for where in ("tests/*", "papers/*/tests", "shared/tests") for path in SOURCE.glob(f"{where}/*.diff")]


def header(name: str, source: Path) -> Path:
    """Headers of src/ go by their place in it, as #include has them."""
    path = source / "src" / name
    return path if path.exists() else source / name


def hunks(faults: Path) -> dict[str, list[tuple[str, str]]]:
    """For each header the texts that go, and what comes in their places; both end with a line's end."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for part in faults.read_text().split("\n\n"):
        lines = part.strip("\n").split("\n")
        if lines[0].startswith("@ "):
            name = lines.pop(0)[2:]
        before = [line[1:] for line in lines if line[0] in " -"]
        after = [line[1:] for line in lines if line[0] in " +"]
        found.setdefault(name, []).append(("\n".join([*before, ""]), "\n".join([*after, ""])))
    return found


def faults_of(faults: Path) -> dict[str, list[str]]:
    """For each header the names of its faults."""
    return {
        name: list(
            dict.fromkeys(each for _, after in changes for call in _CALL.findall(after) for each in _NAME.findall(call))
        )
        for name, changes in hunks(faults).items()
    }


def plant(text: str, changes: list[tuple[str, str]], name: str) -> str:
    for before, after in changes:
        if f"\n{text}".count(f"\n{before}") != 1:
            raise SystemExit(f"{name}: a fault's text is not there, or not once:\n{before}")
        text = f"\n{text}".replace(f"\n{before}", f"\n{after}")[1:]
    return text


def with_places(before: str, after: str, path: str) -> str:
    """`after`, with #line where its lines are those of `before` again: traces and coverage name the header itself."""
    old, new = before.split("\n"), after.split("\n")
    lines = []
    for kind, i, _, j, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            lines.append(f'#line {i + 1} "{path}"')
        lines += new[j:end]
    return "\n".join(lines)


def plant_all(out: Path, files: list[Path], source: Path = SOURCE) -> None:
    """The headers are named from the folder above `out`, where a build compiles: so a cache may keep what it makes."""
    for faults in files:
        for name, changes in hunks(faults).items():
            path = header(name, source)
            text = path.read_text()
            planted = with_places(text, plant(text, changes, f"{faults}: {name}"), os.path.relpath(path, out.parent))
            place = out / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists() or place.read_text() != planted:
                place.write_text(planted)


if __name__ == "__main__":
    target, faults = Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]]
    plant_all(target, faults)
    read = [*faults, *(header(name, SOURCE) for file in faults for name in hunks(file))]
    (target / "done.d").write_text(
        f"{target}/done: {' '.join(str(path).replace(' ', chr(92) + ' ') for path in read)}\n"
    )
    (target / "done").touch()
