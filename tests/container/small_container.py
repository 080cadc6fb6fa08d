# SPDX-License-Identifier: MIT
"""Runs the cache program in a cgroup with little memory: under the C library's malloc and each allocator of build/peers
the kernel kills it; under Freeway with FREEWAY_LIMIT=,90% it ends well, and without a limit it is killed as well.
Usage: small_container.py PROGRAM. The library is $FREEWAY_LIB."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
SKIPPED = 77
MEMORY = 128 << 20
ASKED = "768"  # MiB, by the program


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
    group = parent / f"freeway-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.max").write_text(str(MEMORY))
        if (group / "memory.swap.max").exists():
            (group / "memory.swap.max").write_text("0")
        yield group
    finally:
        group.rmdir()


def run_in(group: Path, program: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    def enter() -> None:
        (group / "cgroup.procs").write_text("0")

    return subprocess.run(
        [program, ASKED],
        env={**os.environ, **environment},
        preexec_fn=enter,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def peers() -> dict[str, str]:
    """The libraries of other allocators, by name."""
    manifest = Path(os.environ["FREEWAY_SOURCE_DIR"]) / "build" / "peers" / "manifest.json"
    if not manifest.exists():
        return {}
    found = {each["name"]: each["library"] for each in json.loads(manifest.read_text())}
    return {name: library for name, library in found.items() if library and Path(library).exists()}


def main() -> int:
    program, library = sys.argv[1], os.environ["FREEWAY_LIB"]
    group = own_group()
    parent = parent_with_memory(group) if isinstance(group, Path) else group
    if isinstance(parent, str):
        print(f"skipped: {parent}")
        return SKIPPED
    faults = []
    with container(parent) as small:
        others = {"the C library": "", **peers(), "Freeway without a limit": library}
        for name, preloaded in others.items():
            run = run_in(small, program, {"LD_PRELOAD": preloaded, "FREEWAY_LIMIT": ""})
            print(f"{name}: {'killed' if run.returncode == -signal.SIGKILL else f'exit {run.returncode}'}")
            if name in ("the C library", "Freeway without a limit") and run.returncode != -signal.SIGKILL:
                faults.append(f"{name}: was not killed: {run.returncode} {run.stdout}{run.stderr}")
        for limit in (",90%", "60%,90%"):
            run = run_in(small, program, {"LD_PRELOAD": library, "FREEWAY_LIMIT": limit})
            print(f"Freeway, FREEWAY_LIMIT={limit}: exit {run.returncode}: {run.stdout.strip()}")
            if run.returncode != 0 or "refused 0 times" in run.stdout:
                faults.append(f"FREEWAY_LIMIT={limit}: {run.returncode} {run.stdout}{run.stderr}")
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
