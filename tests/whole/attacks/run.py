#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The attacks under the allocators: `run.py expected|all|page|check`.

expected  Freeway's levels under FREEWAY_LIB against catalogue.EXPECTED (ctest runs it)
all       every allocator that `make peers` built, then what each costs: docs/attacks.json and docs/attacks.md
costs     only what each costs, again: on a quiet machine
page      docs/attacks.md once more, from docs/attacks.json
check     exit status 1 if docs/attacks.md is not what docs/attacks.json says, or the latter not what EXPECTED does
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/support")]

import page  # noqa: E402
from catalogue import ATTACKS, EXPECTED, LEVELS  # noqa: E402
from costs import measure  # noqa: E402
from harness.allocators import Allocator, known_allocators  # noqa: E402
from harness.machine import facts  # noqa: E402
from proof import proof  # noqa: E402
from trial import Rows, entropy, try_all  # noqa: E402

BUILD = Path(os.environ.get("FREEWAY_BUILD_DIR", ROOT / "build/release"))
KEPT = ROOT / "docs/attacks.json"
PAGE = ROOT / "docs/attacks.md"
# In the order of the table, behind Freeway's levels. They come from bench/peers.
PEERS = ("glibc", "scudo", "scudo-quarantine", "mimalloc3", "mimalloc3-secure", "snmalloc", "snmalloc-checks")


def freeway_levels(library: Path) -> list[Allocator]:
    """Freeway in each of its levels; FREEWAY_RSEQ as the test sets it."""
    mode = {name: os.environ[name] for name in ("FREEWAY_RSEQ",) if name in os.environ}
    return [Allocator(name, library, {**mode, **variables}) for name, variables in LEVELS.items()]


def differences(rows: dict[str, Rows]) -> list[str]:
    """Where Freeway's rows are not those of EXPECTED, a line each."""
    found = []
    for attack in ATTACKS:
        for level, expected in zip(LEVELS, EXPECTED[attack.name], strict=True):
            seen = rows[level][attack.name]
            worst = page.worst(seen)
            if worst not in (expected if isinstance(expected, tuple) else (expected,)):
                found.append(f"{level}: {attack.name}: {worst} ({page.counts(seen)}), expected: {expected}")
    return found


def expected(repeats: int) -> int:
    """Freeway alone."""
    levels = freeway_levels(Path(os.environ["FREEWAY_LIB"]))
    rows = {level.name: try_all(level, BUILD, repeats) for level in levels}
    found = differences(rows)
    for line in found:
        print(line)
    for level in levels:
        tries = sum(sum(outcomes.values()) for outcomes in rows[level.name].values())
        proof("bad input", f"attacks, {level.name}", "attacks", tries)
    return 1 if found else 0


def all_allocators() -> list[Allocator]:
    """Freeway's levels and the peers that are there; the others are named."""
    known = known_allocators(BUILD)
    missing = [name for name in PEERS if name not in known or known[name].failed]
    if missing:
        sys.exit(f"not there: {', '.join(missing)}: `make peers` builds them")
    return [*freeway_levels(BUILD / "libfreeway.so"), *(known[name] for name in PEERS)]


def run_all(repeats: int, cost_repeats: int) -> int:
    """Everything, kept."""
    allocators = all_allocators()
    result = page.Result(machine=facts(BUILD))
    for allocator in allocators:
        print(f"{allocator.name} …", flush=True)
        result.allocators[allocator.name] = {"version": allocator.version, "variables": allocator.variables}
        result.outcomes[allocator.name] = try_all(allocator, BUILD, repeats)
        result.entropy[allocator.name] = entropy(allocator, BUILD)
    result.costs = measure(allocators, BUILD, cost_repeats)
    keep(result)
    return 0


def keep(result: page.Result) -> None:
    """The results, and the page of them."""
    result.save(KEPT)
    PAGE.write_text(page.render(result))


def check() -> int:
    """The page, the results and the table agree."""
    result = page.Result.load(KEPT)
    found = differences(result.outcomes)
    if PAGE.read_text() != page.render(result):
        found.append(f"{PAGE.relative_to(ROOT)} is not what {KEPT.relative_to(ROOT)} says: attacks/run.py page")
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


def main() -> int:
    """Parses the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("expected", "all", "costs", "page", "check"))
    parser.add_argument("--repeat", type=int, default=5, help="runs of an attack with each of its sizes and arguments")
    parser.add_argument("--cost-repeat", type=int, default=5, help="measurements of each cost")
    options = parser.parse_args()
    if options.command == "expected":
        return expected(options.repeat)
    if options.command == "all":
        return run_all(options.repeat, options.cost_repeat)
    if options.command == "check":
        return check()
    result = page.Result.load(KEPT)
    if options.command == "costs":
        result.costs = measure(all_allocators(), BUILD, options.cost_repeat)
    keep(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
