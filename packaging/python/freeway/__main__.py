# SPDX-License-Identifier: MIT
"""`python -m freeway ...` and the script `freeway`: both become the program `freeway` that this package brings.

The script hands on all its arguments. `python -m freeway` knows two more things:

    python -m freeway run [--option ...] ARGUMENTS    runs this Python with ARGUMENTS: app.py, -m module, -c code
    python -m freeway path                            prints the path of the library, for LD_PRELOAD
"""

from __future__ import annotations

import os
import subprocess
import sys

from freeway._library import COMMAND, path

# Options of `freeway run` whose value may be the next argument.
_WITH_VALUE = (
    "--limit", "--prefault", "--purge", "--huge", "--guard", "--on-error", "--rseq", "--deepbind",
    "--leaks-status", "--leaks-dump", "--engine", "--set",
)  # fmt: skip


def _become(arguments: list[str]) -> None:
    """Replaces this process by the command, which finds the library beside itself."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(COMMAND, ["freeway", *arguments])
    except OSError as error:
        sys.exit(f"freeway: {COMMAND} cannot be run: {error.strerror}")


def split_run(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Splits what follows `run`: the options of `freeway run`, which begin with two dashes, and Python's arguments."""
    options: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("--"):
        option = rest.pop(0)
        if option == "--":
            break
        options.append(option)
        if option in _WITH_VALUE and rest:
            options.append(rest.pop(0))
    return options, rest


def script() -> None:
    """The script `freeway`."""
    _become(sys.argv[1:])


def main() -> None:
    """`python -m freeway`."""
    arguments = sys.argv[1:]
    if arguments == ["path"]:
        print(path())
        return
    if arguments[:1] == ["run"]:
        options, rest = split_run(arguments[1:])
        if not rest:
            sys.exit("freeway: run: which program? (python -m freeway run [--option ...] app.py args...)")
        # Options that this Python was given (-X, -W, -I and so on) hold for the program as well.
        given = subprocess._args_from_interpreter_flags()
        arguments = ["run", *options, "--", sys.executable, *given, *rest]
    _become(arguments)


if __name__ == "__main__":
    main()
