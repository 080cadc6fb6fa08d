# SPDX-License-Identifier: MIT
"""`python3 -m tools.proof run|page|keep|check`; see README.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tools.proof import page, steps
from tools.proof.record import Run

OUTPUT = Path("build/proof")
KEPT = Path("docs/proof.json")
PAGE = Path("docs/proof.md")


def main() -> int:
    """Parses the arguments; the repository's root is the current directory."""
    parser = argparse.ArgumentParser(prog="tools.proof", description="All of Freeway's proofs, and their page.")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="run everything; exit status 1 if a test failed")
    runs.add_argument("--jobs", type=int, default=os.cpu_count(), help="tests at a time (default: the number of CPUs)")
    runs.add_argument("--only", choices=steps.STEPS, action="append", help="only this step; may be given several times")
    runs.add_argument("--again", action="store_true", help="only the tests that failed when the step was run last")
    commands.add_parser("page", help=f"print the page of what was run last ({OUTPUT})")
    commands.add_parser("keep", help=f"what was run last becomes {KEPT}, and its page {PAGE}")
    commands.add_parser("check", help=f"exit status 1 if {PAGE} is not what {KEPT} says")
    arguments = parser.parse_args()

    if arguments.command == "run":
        run = steps.run_again if arguments.again else steps.run
        done = [run(Path.cwd(), OUTPUT, arguments.jobs, which) for which in arguments.only or steps.STEPS]
        path = OUTPUT / "proof.md"
        path.write_text(page.render(steps.collect(OUTPUT)))
        failed = [name for each in done for name in each.failed]
        print(f"{path}: {sum(each.seconds for each in done) / 60:.0f} minutes, {len(failed)} tests failed")
        return 1 if failed else 0
    if arguments.command == "page":
        print(page.render(steps.collect(OUTPUT)), end="")
    elif arguments.command == "keep":
        steps.collect(OUTPUT).save(KEPT)
        PAGE.write_text(page.render(Run.load(KEPT)))
    elif PAGE.read_text() != page.render(Run.load(KEPT)):
        print(f"{PAGE}: not what {KEPT} says: python3 -m tools.proof keep, or write it again", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
