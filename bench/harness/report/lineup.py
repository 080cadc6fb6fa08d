# SPDX-License-Identifier: MIT
#
# lineup.py: the allocators as the report shows them: what kind each is, in which order, in which colour. A colour
# belongs to an allocator, not to its place in a plot, so that all plots of all reports read alike. Hues are those of
# Okabe and Ito and of Tol, which stay apart under colour blindness; versions of one allocator share a hue and differ in
# line and marker. No hue is so light or dark that it is lost on white or on black.
"""Kinds, order and colours of the allocators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

FLAGSHIP = "freeway"
GLIBC = "glibc"
LOCKED = "locked"  # one mutex around everything: stands for the papers' C libraries
ENGINES = ("michael", "lfmalloc", "streamflow", "hmalloc", "nbbs")


def is_engine(name: str) -> bool:
    """Whether `name` is a paper's engine or one of its variants (michael-one-heap)."""
    return any(name == engine or name.startswith(f"{engine}-") for engine in ENGINES)


def is_ours(name: str) -> bool:
    """Whether `name` is of this project: the flagship, an engine, a variant of them, or the one-mutex baseline."""
    return name in (FLAGSHIP, LOCKED) or name.startswith(f"{FLAGSHIP}-") or is_engine(name)


def peers(names: Iterable[str]) -> list[str]:
    """Those the flagship is measured against."""
    return [name for name in names if not is_ours(name)]


@dataclass(frozen=True)
class Style:
    """How an allocator is drawn."""

    colour: str
    line: str = "-"
    marker: str = "o"
    width: float = 1.3


_STYLES = {
    FLAGSHIP: Style("#d55e00", "-", "o", 2.8),
    "freeway-no-rseq": Style("#d55e00", "--", "s", 1.6),
    GLIBC: Style("#7a7a7a", "-", "s"),
    LOCKED: Style("#7a7a7a", ":", "x"),
    "mimalloc-2.0": Style("#2f86c5", ":", "v"),
    "mimalloc2": Style("#2f86c5", "--", "<"),
    "mimalloc3": Style("#2f86c5", "-", ">"),
    "jemalloc-5.3.0": Style("#009e73", ":", "v"),
    "jemalloc": Style("#009e73", "-", "D"),
    "tcmalloc-2.10": Style("#cc79a7", ":", "^"),
    "tcmalloc": Style("#cc79a7", "-", "p"),
    "tbbmalloc": Style("#56b4e9", "-", "P"),
    "snmalloc": Style("#aa4fb0", "-", "h"),
    "rpmalloc": Style("#d19a00", "-", "X"),
    "michael": Style("#7a72d4", "-.", "1"),
    "lfmalloc": Style("#3aa79a", "-.", "2"),
    "streamflow": Style("#8f9630", "-.", "3"),
    "hmalloc": Style("#b94a78", "-.", "4"),
    "nbbs": Style("#a5694f", "-.", "+"),
}
_ORDER = list(_STYLES)


def style(name: str) -> Style:
    """The style of `name`; a variant has its engine's hue, an unknown allocator a neutral one."""
    if name in _STYLES:
        return _STYLES[name]
    family = next((known for known in _ORDER if name.startswith(f"{known}-")), None)
    return Style(_STYLES[family].colour if family else "#949494", ":", ".")


def ordered(names: Iterable[str]) -> list[str]:
    """The flagship first, then the peers, then the engines, each with its variants behind it."""

    def place(name: str) -> tuple[int, str]:
        family = name if name in _STYLES else next((k for k in _ORDER if name.startswith(f"{k}-")), None)
        return (_ORDER.index(family) if family else len(_ORDER), name)

    return sorted(set(names), key=place)
