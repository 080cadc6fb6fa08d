# SPDX-License-Identifier: MIT
"""How much of a burst's memory is back when the program has slept for 1.5 and 10 seconds, allocator by allocator.

build/venv/bin/python bench/workloads/idle/after_burst.py [BUILD]"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(BENCH))

from harness.allocators import Allocator, known_allocators  # noqa: E402

CASES = {
    "64 B": (),
    "64 B, 4 threads": ("--threads", "4"),
    "2000 B": ("--size", "2000"),
    "100 KB": ("--size", "100000"),
}
# What each offers for idle processes, beside what it does by default.
VARIANTS = (
    ("glibc", "", {}),
    ("freeway", "", {}),
    ("freeway", " + BACKGROUND", {"FREEWAY_BACKGROUND": "1"}),
    ("freeway-no-rseq", " + BACKGROUND", {"FREEWAY_BACKGROUND": "1"}),
    ("jemalloc", "", {}),
    ("jemalloc", " + background_thread", {"MALLOC_CONF": "background_thread:true"}),
    ("mimalloc2", "", {}),
    ("mimalloc3", "", {}),
    ("tcmalloc", "", {}),
    ("snmalloc", "", {}),
    ("rpmalloc", "", {}),
)


def measured(program: Path, allocator: Allocator, arguments: tuple[str, ...]) -> dict[str, float]:
    environment = allocator.environment()
    if allocator.library is not None:
        environment["LD_PRELOAD"] = str(allocator.library)
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    build = Path(sys.argv[1] if len(sys.argv) > 1 else BENCH.parent / "build/release").resolve()
    known = known_allocators(build)
    print("| allocator | " + " | ".join(f"{case}: after 1.5 s | after 10 s" for case in CASES) + " |")
    print("|---" * (1 + 2 * len(CASES)) + "|")
    for name, addition, variables in VARIANTS:
        allocator = known.get(name)
        if allocator is None or allocator.failed:
            print(f"| {name}{addition} | {allocator.failed if allocator else 'not known'} |")
            continue
        allocator = dataclasses.replace(allocator, variables={**allocator.variables, **variables})
        cells = []
        for arguments in CASES.values():
            result = measured(build / "bench/workloads/after_burst", allocator, arguments)
            result = result.get("figures", result)
            cells += [f"{100 * (1 - result[now] / result['peak_kib']):.1f} %" for now in ("soon_kib", "late_kib")]
        print(f"| {name}{addition} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
