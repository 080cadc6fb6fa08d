# SPDX-License-Identifier: MIT
"""`python3 -m tools.website [folder]`: builds the site in folder/html; exit status 1 if something is wrong with it."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from tools.website import links, pages

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Collects the pages, has mkdocs make HTML of them, and checks that."""
    parser = argparse.ArgumentParser(prog="tools.website", description="The documentation as a static site.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/site", help="where (default: build/site)")
    folder = parser.parse_args().folder.resolve()
    try:
        site = pages.collect(ROOT)
    except pages.PageError as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    shutil.rmtree(folder / "pages", ignore_errors=True)
    pages.write(site, folder / "pages")
    (folder / "mkdocs.yml").write_text(pages.configuration(ROOT, folder))
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--clean"]
    built = subprocess.run([*mkdocs, "--config-file", folder / "mkdocs.yml"], check=False, cwd=ROOT)
    if built.returncode != 0:
        return 1
    faults = links.check(folder / "html")
    for fault in faults:
        print(fault)
    if not faults:
        documents = sum(1 for path in site if path.suffix == ".md")
        print(f"{documents} pages in {folder / 'html/index.html'}: every link, heading and picture is there.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
