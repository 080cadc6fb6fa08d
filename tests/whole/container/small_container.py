# SPDX-License-Identifier: MIT
"""Runs the cache program in a cgroup with little memory: under the C library's malloc and each allocator of build/peers
the kernel kills it; under Freeway with FREEWAY_LIMIT=,90% it ends well, and without a limit it is killed as well.
Usage: small_container.py PROGRAM. The library is $FREEWAY_LIB."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from container_runs import ASKED, MEMORY, Run, all_runs

GROUPS = Path("/sys/fs/cgroup")
SKIPPED = 77


def own_group() -> Path | str:
    """The group of version 2 that this process is in, or why none can be made in it."""
    if not (GROUPS / "cgroup.controllers").exists():
        return "no cgroups of version 2"
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            group = GROUPS / line[3:].lstrip("/")
            if not group.exists():
                return f"{group} is not there"
            return group if os.access(group, os.W_OK) else f"{group} cannot be written"
    return "this process is in no group"


def parent_with_memory(group: Path) -> Path | str:
    """The group itself or the one above it, whichever gives its children the memory controller."""
    for each in (group, group.parent):
        control = each / "cgroup.subtree_control"
        if control.exists() and "memory" in control.read_text().split():
            return each
    return "neither this group nor the one above gives its children the memory controller"


@contextmanager
def container(parent: Path) -> Iterator[Path]:
    """A group of our own in `parent`, with little memory."""
    group = parent / f"freeway-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.max").write_text(str(MEMORY))
        if (group / "memory.swap.max").exists():
            (group / "memory.swap.max").write_text("0")
        yield group
    finally:
        group.rmdir()


def fault_in(group: Path, program: str, run: Run) -> str:
    """Runs the program in the group; what is wrong with its end."""

    def enter() -> None:
        (group / "cgroup.procs").write_text("0")

    done = subprocess.run(
        [program, ASKED],
        env={**os.environ, **run.environment},
        preexec_fn=enter,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    end = f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"
    print(f"{run.name}: {end}: {done.stdout.strip()}")
    return run.fault(end, done.stdout + done.stderr)


def main() -> int:
    """Runs all; the exit status."""
    group = own_group()
    parent = parent_with_memory(group) if isinstance(group, Path) else group
    if isinstance(parent, str):
        print(f"skipped: {parent}")
        return SKIPPED
    with container(parent) as small:
        found = [fault_in(small, sys.argv[1], run) for run in all_runs(os.environ["FREEWAY_LIB"])]
    faults = [fault for fault in found if fault]
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
