# SPDX-License-Identifier: MIT
"""Runs programs under FREEWAY_STATS=json:PATH and checks what they leave there: JSON, with the figures that freeway.h
names, all of them numbers, and consistent with each other. The library is $FREEWAY_LIB."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = Path(__file__).resolve().parent.parent.parent / "include" / "freeway" / "freeway.h"
PROGRAMS = (
    ["/bin/echo"],
    ["/bin/ls", "/"],
    [sys.executable, "-c", "print(sum(len(str(i)) for i in range(100000)))"],
)


def figures_of_header() -> set[str]:
    """The fields of freeway_stats_t."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    body = re.search(r"typedef struct freeway_stats_t \{(.*?)\}", text, flags=re.DOTALL)
    assert body is not None
    return set(re.findall(r"(\w+)\s*;", body[1]))


def numbers_in(value: object) -> dict[str, float]:
    """All members with number values, at any depth; the outermost wins where a name is used twice."""
    found: dict[str, float] = {}
    if isinstance(value, dict):
        for each in value.values():
            found = {**numbers_in(each), **found}
        found.update({name: each for name, each in value.items() if isinstance(each, (int, float))})
    return found


def check(program: list[str], library: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stats.json"
        environment = {**os.environ, "LD_PRELOAD": library, "FREEWAY_STATS": f"json:{path}"}
        run = subprocess.run(program, check=False, env=environment, capture_output=True, text=True, timeout=60)
        if run.returncode != 0 or run.stderr:
            return [f"{program}: exit {run.returncode}, stderr {run.stderr!r}"]
        if not path.exists():
            return [f"{program}: wrote no statistics"]
        try:
            statistics = json.loads(path.read_text())
        except json.JSONDecodeError as error:
            return [f"{program}: not JSON ({error}): {path.read_text()[:300]!r}"]
    numbers = numbers_in(statistics)
    missing = sorted(figures_of_header() - numbers.keys())
    faults = [f"{program}: figure {name} of freeway.h is missing" for name in missing]
    faults += [f"{program}: {name} is negative" for name, value in numbers.items() if value < 0]
    if not faults and numbers["mapped"] < numbers["live"]:
        faults.append(f"{program}: more is live than is mapped")
    if not faults and numbers["metadata"] == 0:
        faults.append(f"{program}: no metadata")
    return faults


def main() -> int:
    library = os.environ["FREEWAY_LIB"]
    faults = [fault for program in PROGRAMS for fault in check(program, library)]
    print("\n".join(faults) if faults else f"{len(PROGRAMS)} programs left well-formed statistics")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
