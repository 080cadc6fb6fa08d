# SPDX-License-Identifier: MIT
#
# python_job.py: what a Python program does all day: parse, group, sort and print records. The demonstration runs it
# under both mallocs. Prints a checksum.
"""A few seconds of ordinary Python."""

from __future__ import annotations

import hashlib
import json
import random
import re
import sys
from collections import defaultdict


def make_records(count: int) -> str:
    """JSON text of `count` records, the same every time."""
    source = random.Random(2004)
    words = ["".join(source.choices("abcdefghijklmnop", k=source.randint(3, 12))) for _ in range(2000)]
    records = [
        {
            "id": i,
            "user": source.choice(words),
            "tags": source.sample(words, 4),
            "text": " ".join(source.choices(words, k=12)),
        }
        for i in range(count)
    ]
    return json.dumps(records)


def group_by_tag(records: list[dict[str, object]]) -> dict[str, list[int]]:
    """Ids by tag."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for record in records:
        for tag in record["tags"]:  # type: ignore[attr-defined]
            groups[tag].append(record["id"])  # type: ignore[arg-type]
    return dict(sorted(groups.items()))


def main(rounds: int) -> None:
    """Parse, group, rewrite, print; `rounds` times."""
    text = make_records(20_000)
    digest = hashlib.sha256()
    for turn in range(rounds):
        records = json.loads(text)
        groups = group_by_tag(records)
        lines = [f"{tag}: {len(ids)} {ids[turn % len(ids)]}" for tag, ids in groups.items()]
        swapped = [re.sub(r"(\w+) (\w+)", r"\2 \1", record["text"]) for record in records]
        swapped.sort(key=lambda line: line[::-1])
        digest.update("\n".join(lines + swapped).encode())
    print(digest.hexdigest())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
