# SPDX-License-Identifier: MIT
"""`python3 -m tools.proof run|page|keep|rewrite|check`; see README.md."""

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
    commands.add_parser("rewrite", help=f"writes {PAGE} anew from {KEPT}")
    commands.add_parser(
        "check", help=f"exit status 1 if {PAGE} is not what {KEPT} says, or a failure has no reason there"
    )
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
        for name in Run.load(KEPT).unexplained:
            print(
                f"{KEPT}: say under `why` of its step why {name} failed at first, then: python3 -m tools.proof rewrite"
            )
    elif arguments.command == "rewrite":
        PAGE.write_text(page.render(Run.load(KEPT)))
    else:
        kept = Run.load(KEPT)
        faults = [f"{KEPT}: no word on why {name} failed at first" for name in kept.unexplained]
        if PAGE.read_text() != page.render(kept):
            faults.append(f"{PAGE}: not what {KEPT} says: python3 -m tools.proof rewrite")
        for fault in faults:
            print(fault, file=sys.stderr)
        return 1 if faults else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
