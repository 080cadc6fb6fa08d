#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Heap profilers beside each other: `run.py hangs|costs|page`.

hangs   counts how runs of a storm end under each allocator
costs   CPU time with a profile over that without: for a quiet machine
page    only writes docs/profiles.md's tables once more, from docs/profiles.json
Both write docs/profiles.json and the tables. They need `make peers`, redis-server, and the targets workload_storm,
workload_larson, workload_server, workload_kv_cache and measured_run.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import costs
import hangs
from harness.machine import facts
from subjects import BUILD, ROOT, WITH, WITHOUT, known

KEPT = ROOT / "docs/profiles.json"
PAGE = ROOT / "docs/profiles.md"
MARKS = "<!-- {0}: bench/profilers/run.py -->\n{1}<!-- end of {0} -->\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def ends_in_words(ends: dict[str, int]) -> str:
    """20: all ended; else what became of the others."""
    runs = sum(ends.values())
    bad = [f"**{count} {end}**" for end, count in sorted(ends.items()) if end != "ended"]
    return ", ".join(bad) + f" of {runs}" if bad else f"0 of {runs}" if runs else "–"


def machine_line(kept: dict[str, Any]) -> str:
    """Where the figures are from."""
    machine, versions = kept["machine"], kept["versions"]
    known_as = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return f"{machine['cpus']} CPUs, {machine['model']}, Linux {machine['kernel']}; {known_as}.\n"


def hangs_table(kept: dict[str, Any]) -> str:
    """Situations by subjects; `hung` and crashes."""
    names = [s.name for s in (*WITH, *WITHOUT)]
    rows = [
        [what, *(ends_in_words(kept["hangs"][situation][name]["ends"]) for name in names)]
        for situation, what in hangs.SITUATIONS.items()
    ]
    return table(["", *names], rows)


def costs_table(kept: dict[str, Any]) -> str:
    """Workloads by subjects."""
    names = [s.name for s in costs.PROFILED]
    rows = [[name, *(costs.summary(by.get(subject, [])) for subject in names)] for name, by in kept["costs"].items()]
    same_work = [s.name for s in costs.PROFILED if "HEAPPROFILE" not in s.variables]  # that one has less to do
    times = [[name, *(costs.in_seconds(by[subject]) for subject in same_work)] for name, by in kept["costs"].items()]
    quiet = kept["foreign"] < costs.BUSY
    share = f"Others used {kept['foreign']:.0%} of the machine meanwhile{'' if quiet else ': it was not quiet'}.\n"
    return table(["", *names], rows) + "\nIn seconds:\n\n" + table(["", *same_work], times) + "\n" + share


def write_page(kept: dict[str, Any]) -> None:
    """Between the marks of the page, where it has some."""
    text = PAGE.read_text() if PAGE.exists() else ""
    for name, make in (("hangs", hangs_table), ("costs", costs_table), ("machine", machine_line)):
        if name in kept:
            new = MARKS.format(name, make(kept))
            print(make(kept))
            pattern = MARKS.format(name, "@").replace("@", "(?s:.*?)")
            text = re.sub(pattern, lambda _, new=new: new, text)
    if text:
        PAGE.write_text(text)


def keep(kept: dict[str, Any]) -> None:
    """Until the next run."""
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Measures what is asked for, and keeps the rest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("hangs", "costs", "page"))
    parser.add_argument("--runs", type=int, default=20, help="of each situation and allocator (hangs)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each run (hangs)")
    parser.add_argument("--beside", type=int, default=8, help="runs at a time (hangs)")
    parser.add_argument("--repeat", type=int, default=7, help="ratios of each cell (costs)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs (costs)")
    options = parser.parse_args()
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if options.what == "hangs":
        cells = hangs.run_all(options.runs, options.seconds, options.beside)
        kept["hangs"] = {
            situation: {name: {"ends": dict(cell.ends), "stands": cell.stands} for name, cell in row.items()}
            for situation, row in cells.items()
        }
    elif options.what == "costs":
        for kept["costs"], kept["foreign"] in costs.measure(options.repeat, options.seed):
            keep(kept)
    if options.what != "page":
        allocators = known()
        names = dict.fromkeys(s.allocator for s in (*WITH, *WITHOUT))
        kept["versions"] = {name: allocators[name].version for name in names if name != "freeway"}
        kept["machine"] = facts(BUILD)
        keep(kept)
    write_page(kept)


if __name__ == "__main__":
    main()
