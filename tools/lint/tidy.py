# SPDX-License-Identifier: MIT
"""clang-tidy of the sources of the libraries and the command, by `.clang-tidy` (`make tidy`); exit status 1 if it finds
something. It needs a configured build/release, and the headers that a build of the command makes.

    python3 -m tools.lint.tidy [--jobs N] [--since COMMIT] [FILE ...]

With --since: sources that differ from that commit, and those that include a header which does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOMS = ("src", "shared", "papers", "command", "compat")
LEFT_OUT = {"tests", "example"}
CONFIGURATIONS = (".clang-tidy", "command/.clang-tidy")

_INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def commands(root: Path) -> dict[str, dict[str, str]]:
    """For each source of ROOMS, by its path, the first of its commands, without what only GCC knows."""
    found: dict[str, dict[str, str]] = {}
    for entry in json.loads((root / "build/release/compile_commands.json").read_text()):
        path = Path(entry["file"])
        if not path.is_relative_to(root):
            continue
        path = path.relative_to(root)
        if path.parts[0] not in ROOMS or not LEFT_OUT.isdisjoint(path.parts) or path.suffix not in {".cc", ".c"}:
            continue
        if str(path) not in found:
            # Warnings are the compilers' business, among them those about each other's options.
            words = [word for word in shlex.split(entry["command"]) if word != "-Werror"]
            found[str(path)] = {**entry, "command": shlex.join([words[0], "-w", *words[1:]])}
    return found


def affected(root: Path, sources: list[str], changed: set[str]) -> list[str]:
    """Of `sources`, paths below `root`, those that are `changed` or include, through others, what is."""
    if changed.intersection(CONFIGURATIONS):
        return sources
    included: dict[str, list[str]] = {}

    def includes(path: str) -> list[str]:
        if path not in included:
            names = _INCLUDE.findall((root / path).read_text())
            near = [os.path.normpath(Path(path).parent / name) for name in names]
            places = [place for name in names for place in (name, f"src/{name}", f"include/{name}")]
            included[path] = [place for place in (*near, *places) if (root / place).is_file()]
        return included[path]

    def reached(source: str) -> set[str]:
        found, left = {source}, [source]
        while left:
            new = set(includes(left.pop())) - found
            found |= new
            left += new
        return found

    return [source for source in sources if changed.intersection(reached(source))]


def changed_since(root: Path, commit: str) -> set[str]:
    """Paths that differ from `commit`, committed or not; new files, too."""
    outputs = [
        subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
        for words in (("diff", "--name-only", commit), ("ls-files", "--others", "--exclude-standard"))
    ]
    return {line for output in outputs for line in output.stdout.splitlines()}


def main() -> int:
    """Prints what clang-tidy finds, each finding once, and a last line with the counts."""
    parser = argparse.ArgumentParser(prog="tools.lint.tidy", description="clang-tidy, by .clang-tidy.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="files at a time (default: the CPUs)")
    parser.add_argument("--since", metavar="COMMIT", help="only what is not as in COMMIT")
    parser.add_argument("files", nargs="*", help="these sources only")
    arguments = parser.parse_args()
    root = Path.cwd()
    known = commands(root)
    sources = arguments.files or list(known)
    if unknown := [source for source in sources if source not in known]:
        print(f"not compiled, or no source of {', '.join(ROOMS)}: {' '.join(unknown)}", file=sys.stderr)
        return 1
    if arguments.since:
        sources = affected(root, sources, changed_since(root, arguments.since))
    database = root / "build/tidy"
    database.mkdir(parents=True, exist_ok=True)
    (database / "compile_commands.json").write_text(json.dumps([known[source] for source in sources]))

    def run(source: str) -> subprocess.CompletedProcess[str]:
        command = [Path(sys.executable).with_name("clang-tidy"), "--quiet", "-p", database, root / source]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    seen: set[str] = set()
    failed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for source, done in zip(sources, pool.map(run, sources), strict=True):
            # A header's findings come with each source that includes it.
            text = done.stdout.replace(f"{root}/", "")
            for finding in re.split(r"(?m)^(?=\S+:\d+:\d+: (?:error|warning): )", text):
                if finding.strip() and finding not in seen:
                    seen.add(finding)
                    print(finding.rstrip(), flush=True)
            if done.returncode != 0:
                failed += 1
                if not done.stdout:
                    print(f"{source}: {done.stderr.strip()}", flush=True)
    print(f"clang-tidy: {len(seen)} findings in {failed} of {len(sources)} sources")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
