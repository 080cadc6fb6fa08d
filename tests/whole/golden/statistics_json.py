# SPDX-License-Identifier: MIT
"""Runs programs under FREEWAY_STATS=json:PATH and checks what they leave there: JSON, with the figures that freeway.h
names, all of them numbers, and consistent with each other. The library is $FREEWAY_LIB."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HEADER = Path(__file__).resolve().parents[3] / "include" / "freeway" / "freeway.h"
DAY = 86400.0  # seconds
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


def faults_of_names(statistics: dict) -> Iterator[str]:
    """The names that dashboards know, by jemalloc's manual: what they must be beside each other."""
    page = os.sysconf("SC_PAGE_SIZE")
    yield from (
        name for name in ("allocated", "active", "resident", "retained") if not isinstance(statistics.get(name), int)
    )
    if statistics["schema"] != 1 or statistics["page_size"] != page:
        yield "schema or page_size"
    if (statistics["mode"] == "spare") != (statistics["rseq_reason"] != ""):
        yield f"mode {statistics['mode']}, because {statistics['rseq_reason']!r}"
    if statistics["allocated"] != statistics["live"]:
        yield "allocated is not live"
    if statistics["active"] < statistics["allocated"] or statistics["active"] % page != 0:
        yield "active is less than allocated, or no multiple of the page size"
    if statistics["resident"] < page or abs(statistics["time_ns"] / 1e9 - time.time()) > DAY:
        yield "resident or time_ns"


def faults_of_classes(classes: list[dict]) -> Iterator[str]:
    """What a class's figures must be beside each other."""
    for each in classes:
        tenths = each["occupancy"]
        if len(tenths) != 10 or sum(tenths) != each["superblocks"]:
            yield f"class {each['size']}: its superblocks by occupancy are not its superblocks"
        if each["live"] + each["cached"] + each["free"] != each["blocks"] * each["size"]:
            yield f"class {each['size']}: live, cached and free blocks are not all blocks"
        if each["waste"] < each["cached"] + each["free"]:
            yield f"class {each['size']}: waste is less than what is free"


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
    faults += [f"{program}: {fault}" for fault in faults_of_names(statistics)]
    if statistics["engine"] == "freeway":
        faults += [f"{program}: {fault}" for fault in faults_of_classes(statistics["classes"])]
        if not any(each["live"] for each in statistics["classes"]):
            faults.append(f"{program}: no class has anything live")
    return faults


def main() -> int:
    library = os.environ["FREEWAY_LIB"]
    faults = [fault for program in PROGRAMS for fault in check(program, library)]
    print("\n".join(faults) if faults else f"{len(PROGRAMS)} programs left well-formed statistics")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
