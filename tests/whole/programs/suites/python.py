# SPDX-License-Identifier: MIT
#
# python.py: CPython's test suite as Debian packs it (libpython3.11-testsuite), with Debian's python3.
# PYTHONMALLOC=malloc makes each object a block of malloc's. Resources that are off by default (network, cpu, largefile,
# ...) stay off.
"""CPython's test suite."""

from __future__ import annotations

from pathlib import Path

import suite
from by_file import ByFile
from preload import SOURCES, need, succeed

ENVIRONMENT = {"PYTHONMALLOC": "malloc"}
ENDS = (0, 2, 4)  # regrtest's: all passed; some failed; none ran
HANGS_AFTER_S = "600"
WAITS = "*VSOCK*"  # for ever, on virtual machines whose sockets do not reach themselves


def python() -> str:
    """Debian's interpreter."""
    return need("python3", "python3")


def modules(work: Path) -> list[str]:
    """All of regrtest's."""
    return succeed([python(), "-m", "test", "--list-tests"], preload=False, cwd=work).out.split()


def command(_: Path, module: str) -> list[str]:
    """regrtest for one module."""
    options = ["-q", "-W", "--timeout", HANGS_AFTER_S, "--ignore", WAITS]
    return [python(), str(SOURCES / "regrtest_outcomes.py"), *options, module]


FILES = ByFile(modules, command, lambda work: work, ENDS, ENVIRONMENT)
CPYTHON = suite.Suite(
    "python",
    build=lambda _: None,
    outcomes=FILES.outcomes,
    least=35_000,
    proves=lambda _: [python(), "-c", "import threading, json"],
)


if __name__ == "__main__":
    suite.run(CPYTHON)
