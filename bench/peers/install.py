#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# install.py: makes the allocators that Freeway is compared with and writes build/peers/manifest.json. `make peers` runs
# it. Each peer by itself: one that fails is named, with the reason, and the others go on. What is there is not fetched
# or built again, but proven again.
"""Makes the peers: all, or those named."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from peers.recipes import RECIPES  # noqa: E402
from peers.workshop import Recipe, make  # noqa: E402


def install(recipes: tuple[Recipe, ...], build: Path, chosen: list[str], jobs: int) -> int:
    """Makes those `chosen` (all for none) and writes the manifest; how many failed. Others keep their entries."""
    path = build / "manifest.json"
    build.mkdir(parents=True, exist_ok=True)
    kept = {peer["name"]: peer for peer in json.loads(path.read_text())} if chosen and path.exists() else {}
    failed = 0
    for recipe in recipes:
        if chosen and recipe.name not in chosen:
            continue
        print(f"{recipe.name:<16} ", end="", flush=True)
        peer = kept[recipe.name] = make(recipe, build, jobs)
        failed += peer["failed"] is not None
        print(peer["origin"] if peer["failed"] is None else f"FAILED: {peer['failed']}", flush=True)
        entries = [kept[r.name] for r in recipes if r.name in kept]
        part = path.with_suffix(".part")
        part.write_text(json.dumps(entries, indent=2) + "\n")
        part.replace(path)
    return failed


def main() -> int:
    """0 also when peers failed: they are named in the output, in the manifest and in every report. --strict: 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PEER", help=", ".join(recipe.name for recipe in RECIPES))
    parser.add_argument("--build", type=Path, default=ROOT / "build/peers", help="default build/peers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="for make and ninja")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a peer failed")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - {recipe.name for recipe in RECIPES})
    if unknown:
        parser.error(f"no peer {', '.join(unknown)}")
    failed = install(RECIPES, options.build.resolve(), options.names, options.jobs)
    print(f"{options.build}/manifest.json: {failed or 'no'} failure{'' if failed == 1 else 's'}")
    return 1 if failed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
