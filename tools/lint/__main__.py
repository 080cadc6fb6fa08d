# SPDX-License-Identifier: MIT
"""`python3 -m tools.lint [root]`: runs every lint; exit status 1 if one found a fault."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.lint import (
    cells,
    claims,
    figures,
    formatting,
    hygiene,
    last_touch,
    layers,
    manual,
    measured,
    optimistic,
    orders,
    proven,
    references,
    upwards,
    versions,
)

LINTS = {
    "layers": layers.check,
    "upwards": upwards.check,
    "orders": orders.check,
    "proven": proven.check,
    "last touch": last_touch.check,
    "optimistic": optimistic.check,
    "hygiene": hygiene.check,
    "references": references.check,
    "claims": claims.check,
    "cells": cells.check,
    "manual": manual.check,
    "figures": figures.check,
    "measured": measured.check,
    "versions": versions.check,
    "formatting": formatting.check,
}


def main() -> int:
    """Parses the arguments, prints each fault as path:line: message, and a last line with the count."""
    parser = argparse.ArgumentParser(prog="tools.lint", description="Rules of Freeway that no compiler checks.")
    parser.add_argument("root", nargs="?", type=Path, default=Path.cwd(), help="the repository (default: here)")
    parser.add_argument("--list-shell-scripts", action="store_true", help="print the shell scripts' paths instead")
    arguments = parser.parse_args()
    if arguments.list_shell_scripts:
        print(*hygiene.shell_scripts(arguments.root), sep="\n")
        return 0
    count = 0
    for name, check in LINTS.items():
        for finding in sorted(set(check(arguments.root))):
            print(f"{finding} [{name}]")
            count += 1
    print(f"lint: {count} fault{'' if count == 1 else 's'} ({', '.join(LINTS)})")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
