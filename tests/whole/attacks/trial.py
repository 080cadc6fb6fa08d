# SPDX-License-Identifier: MIT
"""Runs the programs under an allocator, and says what came of it."""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from catalogue import AT_ONCE, ATTACKS, CRASHED, ENTROPY_SIZE, EXPLOITABLE, LATE, UNHARMED
from harness.allocators import Allocator

TIMEOUT_S = 60
PROCESSES = 400  # of one history, for the entropy: 79,800 pairs
NO_REPORT = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE)
HUNG = None
Rows = dict[str, dict[str, int]]  # attack -> outcome -> how often


class BrokenTrialError(Exception):
    """A program failed in a way that no allocator is to blame for."""


def launch(allocator: Allocator, program: Path, arguments: list[str]) -> tuple[int | None, str, str]:
    """Exit status (negative: a signal; None: it hung), and what it said on fd 1 and 2."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("FREEWAY_", "LD_", "SCUDO_", "MIMALLOC_"))}
    variables |= allocator.variables
    if allocator.library:
        variables["LD_PRELOAD"] = str(allocator.library)
    argv = [str(program), *arguments]
    try:
        done = subprocess.run(argv, env=variables, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return HUNG, "", ""
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def classify(status: int | None, said: str, reported: str) -> str:
    """One of catalogue.OUTCOMES; see attack.h for what a program says. A program that hangs is stopped by nobody: it
    counts as one that crashed, as does one that ends by a bad access with no report."""
    if "cannot be preloaded" in reported:  # the loader goes on without
        raise BrokenTrialError(reported)
    if status == HUNG:
        return CRASHED
    lines = said.splitlines()
    if "attack" not in lines:
        raise BrokenTrialError(f"ended with status {status} before the attack: {said} {reported}")
    if status == 0:
        last = lines[-1].partition(":")[0]
        if last not in (EXPLOITABLE, UNHARMED):
            raise BrokenTrialError(f"said nothing of what came of it: {said}")
        return last
    if status > 0:
        raise BrokenTrialError(f"exit status {status}: {said} {reported}")
    if -status in NO_REPORT and not reported:
        return CRASHED
    return LATE if "after" in lines else AT_ONCE


def try_all(allocator: Allocator, build: Path, repeats: int) -> Rows:
    """Every attack with every size and all arguments, `repeats` times."""

    def attempt(one: tuple[str, str, list[str]]) -> tuple[str, str]:
        name, program, arguments = one
        try:
            return name, classify(*launch(allocator, build / "tests/whole/attacks" / program, arguments))
        except BrokenTrialError as error:
            sys.exit(f"{allocator.name}: {program} {' '.join(arguments)}: {error}")

    plan = [
        (attack.name, attack.program, [str(size), *(_other_size(attack.program, size)), *arguments])
        for attack in ATTACKS
        for size, arguments, _ in itertools.product(attack.sizes, attack.arguments, range(repeats))
    ]
    rows: dict[str, Counter[str]] = {attack.name: Counter() for attack in ATTACKS}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, outcome in pool.map(attempt, plan):
            rows[name][outcome] += 1
    return {name: dict(sorted(outcomes.items())) for name, outcomes in rows.items()}


def _other_size(program: str, size: int) -> tuple[str, ...]:
    return (str(2 * size),) if program == "size_confusion" else ()


def collision_bits(values: list[int]) -> float | None:
    """Bits of entropy by the share of pairs that agree: the logarithm of 1 / share; None if no pair does."""
    pairs = math.comb(len(values), 2)
    equal = sum(math.comb(times, 2) for times in Counter(values).values())
    return -math.log2(equal / pairs) + 0.0 if equal else None


def entropy(allocator: Allocator, build: Path) -> dict[str, float | None]:
    """How well the next block's address can be predicted after a fixed history, over many processes, in bits: its
    distance from the block before, and the address itself."""
    program = build / "tests/whole/attacks/next_address"

    def one(_: int) -> tuple[int, int]:
        status, said, reported = launch(allocator, program, [str(ENTROPY_SIZE)])
        if status != 0:
            sys.exit(f"{allocator.name}: next_address: status {status}: {reported}")
        distance, absolute = said.split()
        return int(distance), int(absolute)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = list(pool.map(one, range(PROCESSES)))
    bits = {"distance": [d for d, _ in seen], "address": [a for _, a in seen]}
    return {what: None if (b := collision_bits(values)) is None else round(b, 1) for what, values in bits.items()}
