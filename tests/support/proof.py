# SPDX-License-Identifier: MIT
"""proof.h for tests in Python: what a test has tried, in numbers, for the page docs/proof.md."""

import json
import os
from pathlib import Path


def proof(area: str, subject: str, what: str, count: int, *, most: bool = False) -> None:
    """Prints the figure, and appends it to the file that $FREEWAY_PROOF_FILE names. `most`: as proof_most."""
    print(f"  proof: {area}: {subject}: {count} {what}", flush=True)
    if path := os.environ.get("FREEWAY_PROOF_FILE"):
        test = os.environ.get("FREEWAY_TEST_NAME", "")
        figure = {"test": test, "area": area, "subject": subject, "what": what, "most" if most else "count": count}
        with Path(path).open("a") as file:
            file.write(json.dumps(figure) + "\n")
