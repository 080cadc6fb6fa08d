# SPDX-License-Identifier: MIT
"""Measured: pages say at which commit their figures were measured, and what of it has changed since.

`docs/measured.json` has each set of figures: when it was begun, at which commit, and a fingerprint of each thing that
it depends on, or "changed" where that is known to have changed since. History is not asked: the commit need not be in
the checkout. The lint fails where a fingerprint is another one now, and where a page does not say what the file says.

    python3 -m tools.lint.measured again SET [--commit X]  it was measured anew: by results' own word, X, or HEAD
    python3 -m tools.lint.measured older [SET...]          it is older than what has changed: pages say so
    python3 -m tools.lint.measured same [SET...]           what has changed cannot matter to the figures

Each of them writes the file and, in the pages, the words.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.lint.claims import BENCHMARKS, GOLDEN, GUARANTEES
from tools.lint.source import ASSEMBLY_SUFFIXES, CXX_SUFFIXES, Finding, split_lines

KEPT = Path("docs/measured.json")
RESULTS = Path("bench/results")
PROOF, PROVED = Path("docs/proof.json"), Path("docs/proof.md")
README = Path("README.md")
CHANGED = "changed"

_FAST_PATH = ("src/malloc/x86_64/fast_path.S", str(GOLDEN))
_SUPPORT = "bench/workloads/support/*"
_PAPERS = ("papers", "streamflow", "simulation", "buddy")
INPUTS: dict[str, tuple[str, ...]] = {
    "the fast path": _FAST_PATH,
    "the workloads of today": ("bench/workloads/today/*", _SUPPORT, "bench/harness/catalogue/today.py"),
    "the drivers of real programs": ("bench/real/*", "bench/real/inputs/*", "bench/harness/catalogue/real.py"),
    "the papers' workloads": (
        *(f"bench/workloads/{name}/*" for name in _PAPERS),
        *(f"bench/harness/catalogue/{name}.py" for name in _PAPERS),
        _SUPPORT,
    ),
    "the promises": (str(GUARANTEES),),
}
_PROSE = {".md", ".txt"}  # says what sources do, and is none
_TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
# A promise is as it was when its test is called otherwise or lies elsewhere.
_EVIDENCE = re.compile(r"\[[a-z-]+\]|`[^`\s]*/[^`]*`|\*[A-Z]\w+…?\*")
_TRAILING_COMMA = re.compile(r",(?=[)\]}])")
_SAID = r"commit {}(?:; the [^.;|()]* ha(?:s|ve) changed since)?"


@dataclass(frozen=True)
class FigureSet:
    """Figures that were measured together: where they come from, which pages show them, what they depend on."""

    source: Path
    pages: tuple[Path, ...]
    inputs: tuple[str, ...]
    run: int = 0  # of a source with several, the place of theirs


def _suite(name: str, *inputs: str, pages: tuple[Path, ...] = (), run: int = 0) -> FigureSet:
    return FigureSet(RESULTS / f"{name}.jsonl.gz", (BENCHMARKS, *pages), inputs, run)


SETS: dict[str, FigureSet] = {
    "today": _suite("today", "the fast path", "the workloads of today", pages=(README,)),
    "real": _suite("real", "the fast path", "the drivers of real programs", pages=(README,)),
    "papers": _suite("papers", "the fast path", "the papers' workloads"),
    "false-sharing": _suite("papers-false-sharing", "the fast path", "the papers' workloads"),
    "counts-of-others": _suite("counts"),
    "counts": _suite("counts", "the fast path", run=1),
    "proof": FigureSet(PROOF, (PROVED,), ("the fast path", "the promises")),
}


def normalised(path: Path) -> str:
    """A file without what cannot matter: comments and white space of sources, prose of promises."""
    text = path.read_text()
    if path.suffix in CXX_SUFFIXES | ASSEMBLY_SUFFIXES:
        text = "".join(line.code for line in split_lines(text))
    elif path.suffix == ".py":
        text = _TRAILING_COMMA.sub("", "".join(_without_comments(text).split()))
    elif path.suffix == ".json":
        return json.dumps(json.loads(text), sort_keys=True)
    elif path.name == GUARANTEES.name:
        text = _EVIDENCE.sub("", "".join(_TABLE_ROW.findall(text)))
    return "".join(text.split())


def _without_comments(text: str) -> str:
    """Python without comments. (A dump of its syntax tree is another one in each version of Python.)"""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(lines)


def fingerprint(root: Path, patterns: Iterable[str]) -> str:
    """Eight digits that are others when one of the files is, or when there are more or fewer of them."""
    digest = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and (path.suffix not in _PROSE or path.name == GUARANTEES.name):
                digest.update(f"{normalised(path)}\0".encode())
    return digest.hexdigest()[:8]


def said(entry: Mapping[str, Any]) -> str:
    """What a page must say of a set."""
    changed = [name for name, value in entry["with"].items() if value == CHANGED]
    if not changed:
        return f"commit {entry['commit']}"
    verb = "has" if changed == ["the fast path"] else "have"
    return f"commit {entry['commit']}; {' and '.join(changed)} {verb} changed since"


def said_of_run(root: Path, begun: str) -> str:
    """The same of the run that was begun then; "" for one that is not kept."""
    entries = json.loads((root / KEPT).read_text()).values() if (root / KEPT).exists() else ()
    return next((said(entry) for entry in entries if entry["begun"] == begun), "")


def runs_of(source: Path) -> list[dict[str, Any]]:
    """The runs in a file of results, or the one of a proof: when each was begun, and its commit if that is known."""
    if source.suffix == ".json":
        return [json.loads(source.read_text())]
    lines = gzip.decompress(source.read_bytes()).decode().splitlines()
    runs = [json.loads(line) for line in lines if '"kind":"run"' in line]
    return [{"begun": run["id"], "commit": run.get("commit", "")} for run in runs]


def check(root: Path) -> list[Finding]:
    """Sets that are not of the kept results, or older than they say; pages that do not say it."""
    if not (root / KEPT).exists():
        return []
    kept = json.loads((root / KEPT).read_text())
    findings = []
    for source in sorted({*(root / RESULTS).glob("*.jsonl.gz"), *root.glob(str(PROOF))}):
        known = [kept[name]["begun"] for name, each in SETS.items() if root / each.source == source and name in kept]
        for run in runs_of(source):
            if run["begun"] not in known:
                path = source.relative_to(root)
                findings.append(Finding(str(path), 1, f"the run of {run['begun']} has no commit: {_how('again SET')}"))
    for pattern in {pattern for figures in SETS.values() for name in figures.inputs for pattern in INPUTS[name]}:
        if not any(root.glob(pattern)):
            findings.append(
                Finding("tools/lint/measured.py", 1, f"figures depend on {pattern}, and there is no such file")
            )
    for name, figures in SETS.items():
        if name not in kept:
            findings.append(Finding(str(KEPT), 1, f"says nothing of {name}: {_how(f'again {name}')}"))
            continue
        stale = [
            each for each, now in _now(root, figures).items() if kept[name]["with"].get(each) not in (now, CHANGED)
        ]
        for page in figures.pages:
            line, text = _place(root / page, kept[name])
            if stale:
                verbs = f"measure, then {_how(f'again {name}')}; or {_how(f'older {name}')}, which says so there"
                findings.append(Finding(str(page), line, f"{name}: {' and '.join(stale)} changed since: {verbs}"))
            elif not re.search(rf"{re.escape(said(kept[name]))}(?!; the )", text):
                want = f'does not say "{said(kept[name])}" of {name}: write it, or have the page made again'
                findings.append(Finding(str(page), line, want))
    return findings


def _how(words: str) -> str:
    return f"`python3 -m tools.lint.measured {words}`"


def _now(root: Path, figures: FigureSet) -> dict[str, str]:
    return {each: fingerprint(root, INPUTS[each]) for each in figures.inputs}


def _when(entry: Mapping[str, Any]) -> str:
    """When a set was begun, as generated pages write it."""
    return re.sub(r"^(\S{10})T(\d+:\d+).*", r"\1 \2 UTC", entry["begun"])


def _place(page: Path, entry: Mapping[str, Any]) -> tuple[int, str]:
    """Where a page speaks of a set: its line and text; all of it where the page does not say when the set was begun."""
    text = page.read_text() if page.exists() else ""
    lines = text.splitlines()
    own = next((number for number, line in enumerate(lines, 1) if _when(entry) in line), 0)
    if own:
        return own, lines[own - 1]
    return next((number for number, line in enumerate(lines, 1) if entry["commit"] in line), 1), " ".join(text.split())


def _write(root: Path, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """The file, and in the pages the new words in the place of the old ones (lines are not broken anew)."""
    (root / KEPT).write_text(json.dumps(after, indent=1) + "\n")
    for name in before.keys() & SETS.keys():
        old = re.compile(_SAID.format(re.escape(before[name]["commit"])).replace(" ", r"\s+"))
        for page in (root / each for each in SETS[name].pages if (root / each).exists()):
            text = page.read_text()
            own = [line for line in text.splitlines(keepends=True) if _when(before[name]) in line]
            for part in own or [text]:
                text = text.replace(part, old.sub(said(after[name]), part))
            page.write_text(text)


def main() -> int:
    """Does what the command line says in the current directory; 1 if something is to be done by hand."""
    parser = argparse.ArgumentParser(prog="tools.lint.measured", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("again", "older", "same"))
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; without any: all")
    parser.add_argument("--commit", help="at which it was measured anew, where the results do not say")
    options = parser.parse_args()
    if unknown := set(options.sets) - SETS.keys():
        parser.error(f"no set of figures {', '.join(sorted(unknown))}")
    if options.what == "again" and not options.sets:
        parser.error("which set of figures was measured again?")
    root = Path.cwd()
    before = json.loads((root / KEPT).read_text()) if (root / KEPT).exists() else {}
    after = dict(before)
    for name in options.sets or before:
        now = _now(root, SETS[name])
        if options.what == "again":
            run = runs_of(root / SETS[name].source)[SETS[name].run]
            commit = options.commit or run.get("commit") or _head(root)
            after[name] = {"begun": run["begun"], "commit": commit, "with": now}
        else:
            was = before[name]["with"]
            for each, before_that in was.items():
                if before_that == CHANGED or (options.what == "older" and before_that != now.get(each)):
                    now[each] = CHANGED
            after[name] = before[name] | {"with": now}
    _write(root, before, after)
    findings = [each for each in check(root) if each.path != str(KEPT)]
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


def _head(root: Path) -> str:
    command = ["git", "-C", str(root), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
