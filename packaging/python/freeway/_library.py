# SPDX-License-Identifier: MIT
"""The library that this package brings, and the one that this process was started with, by ctypes."""

from __future__ import annotations

import ctypes
import functools
import pathlib
from importlib import metadata

FOLDER = pathlib.Path(__file__).resolve().parent
LIBRARY = FOLDER / "libfreeway.so.0"
COMMAND = FOLDER / "freeway"

# The fields of freeway_stats_t, in its order, written by tools/lint/figures.py. Each is a word of 64 bits.
_FIGURES = (
    "live",
    "cached",
    "free_in_superblocks",
    "mapped",
    "dirty",
    "metadata",
    "huge",
    "superblocks",
    "live_blocks",
    "slow_mallocs",
    "slow_frees",
    "refills",
    "flushes",
    "purges",
    "purged",
    "large",
    "large_blocks",
    "guarded",
    "guarded_blocks",
    "guard_faults",
    "held",
    "soft_limit",
    "hard_limit",
    "limit_refusals",
    "limit_pressures",
)
_PROBE_BYTES = 64


class _Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in _FIGURES]


class NotLoadedError(RuntimeError):
    """Freeway is not the malloc of this process."""


@functools.cache
def _loaded_library() -> ctypes.CDLL | None:
    """What this process was started with, or None if its malloc is not Freeway's. That does not change."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "freeway_explain"):
        return None
    process.malloc.restype = ctypes.c_void_p
    process.malloc.argtypes = [ctypes.c_size_t]
    process.free.restype = None
    process.free.argtypes = [ctypes.c_void_p]
    process.freeway_explain.restype = ctypes.c_int
    process.freeway_explain.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    process.freeway_stats.restype = None
    process.freeway_stats.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    process.freeway_trim.restype = ctypes.c_size_t
    process.freeway_trim.argtypes = [ctypes.c_size_t]
    # Another library may have been preloaded before it. Whose malloc it is, its blocks tell; the address of the
    # function does not, which in some programs is the program's own entry of it.
    block = process.malloc(_PROBE_BYTES)
    known = process.freeway_explain(block, None, 0)
    process.free(block)
    return process if known else None


def _needed_library() -> ctypes.CDLL:
    library = _loaded_library()
    if library is None:
        raise NotLoadedError(
            "this process was not started with Freeway as its malloc: use `python -m freeway run PROGRAM`, "
            f"or start it with LD_PRELOAD={path()}"
        )
    return library


def path() -> str:
    """The path of the library in this package, for LD_PRELOAD."""
    return str(LIBRARY)


def version() -> str:
    """The version of this package and of the library in it."""
    return metadata.version("freeway-malloc")


def loaded() -> bool:
    """Whether malloc in this process is Freeway's, however it came there."""
    return _loaded_library() is not None


def stats() -> dict[str, int]:
    """What the heap of this process holds: the figures of freeway_stats_t in freeway(3), in bytes or counts.

    "live" is what the program has, "held" what the kernel backs or may back. Nothing is stopped: while other threads
    allocate, each figure was true at some moment of the call. Raises NotLoadedError if malloc is not Freeway's.
    """
    figures = _Stats()
    _needed_library().freeway_stats(ctypes.byref(figures), ctypes.sizeof(figures))
    return {name: getattr(figures, name) for name in _FIGURES}


def trim(keep: int = 0) -> int:
    """Gives memory that holds no live block back to the system, but for about `keep` bytes; returns the bytes.

    Other threads go on meanwhile. Raises NotLoadedError if malloc is not Freeway's.
    """
    if keep < 0:
        raise ValueError("keep is a number of bytes, 0 or more")
    return int(_needed_library().freeway_trim(keep))
