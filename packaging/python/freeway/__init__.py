# SPDX-License-Identifier: MIT
"""Freeway, a lock-free malloc for Linux, for Python programs.

    python -m freeway run app.py        runs a program with Freeway as its malloc
    freeway.loaded()                    whether this process has it
    freeway.stats()                     what its heap holds
    freeway.trim()                      gives back what it does not need
    freeway.path()                      the library, for LD_PRELOAD

Importing this package changes nothing: a process has the malloc that it was started with.
"""

from freeway._library import NotLoadedError, loaded, path, stats, trim, version

__all__ = ["NotLoadedError", "loaded", "path", "stats", "trim", "version"]
__version__ = version()
