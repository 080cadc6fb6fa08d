# SPDX-License-Identifier: MIT
"""Freeway's jemalloc functions in the place of jemalloc, as compat/jemalloc/README.md has it."""

import os
from pathlib import Path

REFERENCE = "jemalloc's"


def stand_in() -> dict[str, str]:
    """The variable by which programs that are linked with jemalloc get Freeway's functions."""
    return {"LD_LIBRARY_PATH": str(Path(os.environ["FREEWAY_JEMALLOC"]).parent / "compat" / "jemalloc")}


def with_variables(variables: dict[str, str], argv: list[str]) -> list[str]:
    """The command with these variables."""
    return ["env", *(f"{name}={value}" for name, value in variables.items()), *argv]
