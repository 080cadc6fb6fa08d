# SPDX-License-Identifier: MIT
"""The results, and docs/attacks.md of them."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from catalogue import ATTACKS, ENTROPY_SIZE, EXPLOITABLE, LEVELS, OUTCOMES, SIZES
from costs import PROGRAMS, Costs
from trial import PROCESSES, Rows

BASE = "glibc"
# What the columns are, beside their versions.
ABOUT = {
    "freeway": "as it is by default",
    "freeway-harden": "`FREEWAY_HARDEN=1`",
    "freeway-guard-large": "`FREEWAY_HARDEN=1`, `FREEWAY_GUARD=1000000000,large`",
    "glibc": "as programs have it by themselves",
    "scudo": "LLVM's, default options, without GWP-ASan",
    "scudo-quarantine": "the same with a quarantine of 256 KiB, 64 KiB a thread",
    "mimalloc3": "default build",
    "mimalloc3-secure": "built with `MI_SECURE=4`",
    "snmalloc": "default build",
    "snmalloc-checks": "its build with checks, `snmallocshim-checks`",
}

HEAD = """\
# Heap errors and attacks

What {columns} allocators do about typical heap errors of programs, and about attacks that begin with such an error.
Each attack is a small program ([tests/whole/attacks](../tests/whole/attacks/README.md)), tried with blocks of
{sizes} bytes (overflows: of more sizes). **The table shows the worst outcome that was seen**; a number in
brackets is the percentage of the tries that had it, if not all.

- **at once**: the wrong call itself ends the program, before it has changed anything
- **late**: a later call ends it
- **unharmed**: the program goes on undamaged: no block is handed out twice or overlaps another, no contents change,
  later allocations are in order
- **crashed**: the allocator used what was damaged: a bad access without a report, or the program hangs
- **EXPLOITABLE**: the attacker has reached his aim: two owners of one block, a block where he chose it, or a
  neighbour's contents changed unnoticed. Each program's first lines say what its aim is.

The attacker knows addresses, and glibc's formats: forged sizes and links are glibc's. An attack made for another
allocator might do more. So *unharmed* is no proof; *exploitable* is one.
"""


PREDICTION = """
## How well the next address can be foretold

{processes} processes with the same history each allocate one more block of {size} bytes. The table shows how rarely
two of them agree, in bits: the logarithm of 1 over the share of pairs that do. The kernel randomises the address
itself, by the place of the process's mappings; the distance from the block before is the allocator's own
randomness.
"""
COSTS = """
## What it costs

CPU time and peak memory relative to glibc's, medians of {repeats} interleaved runs. Below 1 is less than glibc.
"""
FOOT = """
## How it is made

`make attacks` builds all of this, runs it, and writes `docs/attacks.json` and this page. `make attack-costs` makes
the last table only, on an otherwise idle machine. Each test run tries Freeway's columns again: they must be what
[catalogue.py](../tests/whole/attacks/catalogue.py) expects, neither worse nor better.
"""


@dataclass
class Result:
    """All that was found."""

    machine: dict[str, Any] = field(default_factory=dict)
    allocators: dict[str, dict[str, Any]] = field(default_factory=dict)
    outcomes: dict[str, Rows] = field(default_factory=dict)
    entropy: dict[str, dict[str, float | None]] = field(default_factory=dict)
    costs: Costs = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Result:
        """From `save`."""
        return cls(**json.loads(path.read_text()))


def worst(outcomes: Mapping[str, int]) -> str:
    """The last of OUTCOMES that was seen."""
    return max(outcomes, key=OUTCOMES.index)


def counts(outcomes: Mapping[str, int]) -> str:
    """`exploitable 3, stopped late 57`."""
    return ", ".join(f"{what} {times}" for what, times in sorted(outcomes.items()))


def cell(outcomes: Mapping[str, int]) -> str:
    """The worst, and its share."""
    what = worst(outcomes)
    share = 100 * outcomes[what] / sum(outcomes.values())
    short = "**EXPLOITABLE**" if what == EXPLOITABLE else what.removeprefix("stopped ")
    return short if len(outcomes) == 1 else f"{short} ({max(1, round(share))})"


def row(*cells: str) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"


def head(*cells: str) -> list[str]:
    """The first two lines of one."""
    return [row(*cells), "|" + "---|" * len(cells)]


def _attacks(result: Result) -> list[str]:
    names = list(result.outcomes)
    lines = head("attack", *names)
    for attack in ATTACKS:
        cells = (cell(result.outcomes[name][attack.name]) for name in names)
        lines.append(row(f"{attack.name}: {attack.what}", *cells))
    totals = (
        str(sum(worst(result.outcomes[name][attack.name]) == EXPLOITABLE for attack in ATTACKS)) for name in names
    )
    return [*lines, row(f"exploitable, of {len(ATTACKS)}", *totals)]


def _entropy(result: Result) -> list[str]:
    least = math.floor(math.log2(math.comb(PROCESSES, 2)))
    lines = head("bits", *result.entropy)
    for what, label in (("distance", "distance from the block before"), ("address", "the address itself")):
        values = (bits[what] for bits in result.entropy.values())
        lines.append(row(label, *(f"> {least}" if bits is None else f"{bits:.1f}" for bits in values)))
    return lines


def _ratio(result: Result, program: str, name: str, what: str) -> float:
    of = result.costs[program]
    return statistics.median(of[name][what]) / statistics.median(of[BASE][what])


def _costs(result: Result) -> list[str]:
    names = list(result.outcomes)
    lines = head("time / memory", *names)
    for program in PROGRAMS:
        ratios = ((_ratio(result, program, name, "cpu_s"), _ratio(result, program, name, "rss_kib")) for name in names)
        lines.append(row(program, *(f"{time:.2f} / {memory:.2f}" for time, memory in ratios)))
    return lines


def _columns(result: Result) -> list[str]:
    lines = head("column", "version", "what")
    for name, facts in result.allocators.items():
        settings = " ".join(f"`{key}={value}`" for key, value in facts["variables"].items() if key != "LD_LIBRARY_PATH")
        about = ABOUT.get(name, "")
        lines.append(row(name, facts["version"], about if name in LEVELS else f"{about} {settings}".strip()))
    return lines


def render(result: Result) -> str:
    """The page, as Markdown."""
    machine = result.machine
    repeats = min(len(of["cpu_s"]) for program in result.costs.values() for of in program.values())
    sizes = ", ".join(map(str, SIZES[:-1])) + f" and {SIZES[-1]}"
    parts = (
        HEAD.format(columns=len(result.outcomes), sizes=sizes),
        *_columns(result),
        "",
        f"{machine['architecture']}, {machine['cpus']} CPUs, Linux {machine['kernel']}, {machine['libc']}.",
        "\n## What comes of it\n",
        *_attacks(result),
        PREDICTION.format(size=ENTROPY_SIZE, processes=PROCESSES),
        *_entropy(result),
        COSTS.format(repeats=repeats),
        *_costs(result),
        FOOT,
    )
    return "\n".join(parts).rstrip("\n") + "\n"
