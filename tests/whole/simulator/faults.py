# SPDX-License-Identifier: MIT
"""Writes the names of planted faults as strings of a C++ array: python3 faults.py OUT FAULTS.diff ...

A name is "room/header.h:the fault", since two headers may have faults of the same name.
"""

import re
import sys
from pathlib import Path


def names(faults: Path) -> list[str]:
    found: list[str] = []
    header = ""
    for line in faults.read_text().splitlines():
        if line.startswith("@ "):
            header = line[2:]
        if not line.startswith("+"):
            continue
        for arguments in re.findall(r"mutant\(([^()]*)\)", line):
            found += [f"{header}:{name}" for name in re.findall(r'"([^"]+)"', arguments)]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    everything = [name for file in sys.argv[2:] for name in names(Path(file))]
    Path(sys.argv[1]).write_text("".join(f'"{name}",\n' for name in everything))
