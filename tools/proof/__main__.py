# SPDX-License-Identifier: MIT
"""`python3 -m tools.proof run|page|keep|check`; see README.md."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from tools.proof import page, steps
from tools.proof.record import Run

LATEST = Path("build/proof/run.json")
KEPT = Path("docs/proof.json")
PAGE = Path("docs/proof.md")


def main() -> int:
    """Parses the arguments; the repository's root is the current directory."""
    parser = argparse.ArgumentParser(prog="tools.proof", description="All of Freeway's proofs, and their page.")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="run everything; exit status 1 if a test failed")
    runs.add_argument("--jobs", type=int, default=os.cpu_count(), help="tests at a time (default: the number of CPUs)")
    runs.add_argument("--only", choices=[build for _, build, _ in steps.STEPS], help="this build's tests only")
    commands.add_parser("page", help=f"print the page of {LATEST}")
    commands.add_parser("keep", help=f"{LATEST} becomes {KEPT}, and its page {PAGE}")
    commands.add_parser("check", help=f"exit status 1 if {PAGE} is not what {KEPT} says")
    arguments = parser.parse_args()

    if arguments.command == "run":
        run = steps.run(Path.cwd(), LATEST.parent, arguments.jobs, arguments.only)
        run.save(LATEST)
        LATEST.with_name("proof.md").write_text(page.render(run))
        print(f"{LATEST.with_name('proof.md')}: {run.seconds / 60:.0f} minutes, {len(run.failed)} tests failed")
        return 1 if run.failed else 0
    if arguments.command == "page":
        print(page.render(Run.load(LATEST)), end="")
    elif arguments.command == "keep":
        shutil.copyfile(LATEST, KEPT)
        PAGE.write_text(page.render(Run.load(KEPT)))
    elif PAGE.read_text() != page.render(Run.load(KEPT)):
        print(f"{PAGE}: not what {KEPT} says: python3 -m tools.proof keep, or write it again", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
