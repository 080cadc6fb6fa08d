# SPDX-License-Identifier: MIT
#
# driver.py: what the drivers here share: the measured program's path (Debian's own before any other), the inputs, and
# --shrink. How a program is started under an allocator and what a driver prints is in harness/real_program.py.
"""Programs, inputs and arguments of drivers."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from pathlib import Path

REAL = Path(__file__).resolve().parent
ROOT = REAL.parents[1]
INPUTS = REAL / "inputs"
sys.path.insert(0, str(REAL.parent))

from harness.real_program import Used, environment, fail, missing, report, run, server  # noqa: E402

__all__ = [
    "INPUTS",
    "REAL",
    "ROOT",
    "Used",
    "arguments",
    "digest",
    "environment",
    "fail",
    "missing",
    "program",
    "report",
    "run",
    "scaled",
    "server",
]


def program(name: str, package: str) -> str:
    """The path of a real program; ends the driver, saying what to install, if it is not there."""
    path = shutil.which(name, path="/usr/bin:/bin") or shutil.which(name)
    if path is None:
        missing(f"{name} is not installed (Debian's package {package})")
    return str(path)


def arguments(description: str | None, **choices: tuple[str, ...]) -> argparse.Namespace:
    """The command line: --shrink, and an option for each of `choices`, the first being the default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--shrink", type=int, default=1, help="divide the work by this")
    for name, values in choices.items():
        parser.add_argument(f"--{name}", choices=values, default=values[0])
    return parser.parse_args()


def scaled(full: int, shrink: int) -> int:
    """The work to do, at least 1."""
    return max(1, full // shrink)


def digest(text: str | bytes) -> str:
    """A checksum of what a program made."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]
