# SPDX-License-Identifier: MIT
"""Runs the cache program in a container of an emulated machine (../machines/emulated.py), for machines that have no
cgroups of version 2, or let nobody make one: as small_container.py does in a real one.
Usage: emulated_container.py PROGRAM. The library is $FREEWAY_LIB."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from container_runs import ASKED, MEMORY, Run, all_runs

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "machines")]
from emulated import (  # noqa: E402
    SKIPPED,
    Kind,
    Machine,
    MissingError,
    archive,
    boot,
    can_boot,
    folder,
    output_of,
    require_tools,
)

BOOT_TIMEOUT_S = 1200
KIND = Kind("amd64", "qemu-system-x86_64", ("-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1536M"), "ttyS0")
MACHINE = Machine("container", "bookworm", r"linux-image-6\.1\.[-\w.+]*-cloud-amd64", "run the C library")


def libraries_of(path: Path, work: Path) -> Iterator[Path]:
    """What the loader needs for the program or library, and the loader."""
    for line in output_of(["ldd", path], work).splitlines():
        if found := re.search(r"(/\S+) \(0x", line):
            yield Path(found.group(1))


def image_of(program: Path, runs: list[Run], work: Path) -> Path:
    """The machine's file system: the program, all libraries at their paths here, and the list of runs."""
    init = work / "container_init"
    subprocess.run(["gcc", "-O2", "-Wall", "-static", HERE / "container_init.c", "-o", init], check=True)
    preloaded = [Path(run.preload) for run in runs if run.preload]
    needed = {each for path in (program, *preloaded) for each in libraries_of(path, work)}
    files = {path: path for path in (*needed, *preloaded)} | {Path("/cache_program"): program, Path("/init"): init}
    folders = sorted({parent for path in files for parent in path.parents if parent.name})
    listed = "".join(f"{run.name}\t{run.preload}\t{run.limit}\n" for run in runs)
    members = [(str(each)[1:], 0o040755, b"") for each in folders]
    members += [(str(name)[1:], 0o100755, path.read_bytes()) for name, path in files.items()]
    image = work / "image"
    image.write_bytes(archive([*members, ("runs", 0o100644, listed.encode())]))
    return image


def main() -> int:
    """Boots the machine and judges what its console says; the exit status."""
    if platform.machine() != "x86_64":
        print("skipped: not on x86-64: its libraries are")
        return SKIPPED
    runs, work = all_runs(str(Path(os.environ["FREEWAY_LIB"]).resolve())), folder("container_machine")
    try:
        require_tools(KIND.emulator, "gcc")
        if not can_boot(MACHINE, KIND, work):
            raise MissingError("no kernel")
    except MissingError as missing_something:
        print(f"skipped: {missing_something}")
        return SKIPPED
    image = image_of(Path(sys.argv[1]).resolve(), runs, work)
    said = boot(MACHINE, KIND, image, work, f"MEMORY={MEMORY} ASKED={ASKED}", BOOT_TIMEOUT_S)
    if said is None:
        print("the machine did not come to an end")
        return 1
    told = re.findall(r"^run (.*?)\r?\n(.*?)^end (.*?)\r?$", said, re.MULTILINE | re.DOTALL)
    ends = {name: (end, text) for name, text, end in told}
    found = [run.fault(*ends.get(run.name, ("not run", ""))) for run in runs]
    for run in runs:
        print(f"{run.name}: {ends.get(run.name, ('not run',))[0]}")
    faults = [fault for fault in found if fault]
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
