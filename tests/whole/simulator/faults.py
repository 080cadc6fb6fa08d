# SPDX-License-Identifier: MIT
"""Writes the names of planted faults as strings of a C++ array: python3 faults.py OUT FAULTS.diff ...

A name is "room/header.h:the fault", since two headers may have faults of the same name.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))
from plant import faults_of

if __name__ == "__main__":
    by_header = [each for file in sys.argv[2:] for each in faults_of(Path(file)).items()]
    everything = [f"{header}:{name}" for header, names in by_header for name in names]
    Path(sys.argv[1]).write_text("".join(f'"{name}",\n' for name in everything))
