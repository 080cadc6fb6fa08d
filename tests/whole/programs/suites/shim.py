# SPDX-License-Identifier: MIT
"""Freeway's jemalloc functions in the place of jemalloc, as compat/jemalloc/README.md has it."""

from preload import check, library

REFERENCE = "jemalloc's"


def stand_in() -> dict[str, str]:
    """The variable by which programs that are linked with jemalloc get Freeway's functions."""
    place = library().parent / "compat" / "jemalloc"
    check((place / "libjemalloc.so.2").exists(), f"{place} has no libjemalloc.so.2")
    return {"LD_LIBRARY_PATH": str(place)}


def with_variables(variables: dict[str, str], argv: list[str]) -> list[str]:
    """The command with these variables."""
    return ["env", *(f"{name}={value}" for name, value in variables.items()), *argv]
