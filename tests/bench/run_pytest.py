# SPDX-License-Identifier: MIT
"""run_pytest.py FOLDER: runs pytest on a folder, with the Python that has the laboratory's packages.

`make` names that Python in FREEWAY_PYTHON. Without it: this one, or build/venv's; exit status 77 (skipped) if neither
has them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

PACKAGES = ("pytest", "rich", "jinja2", "matplotlib")
VENV_PYTHON = Path(__file__).resolve().parents[2] / "build/venv/bin/python"


def main() -> int:
    python = os.environ.get("FREEWAY_PYTHON")
    if python is None and all(importlib.util.find_spec(package) for package in PACKAGES):
        python = sys.executable
    if python is None and VENV_PYTHON.exists():
        python = str(VENV_PYTHON)
    if python is None:
        print(f"skipped: no Python with {', '.join(PACKAGES)} (`make test` makes build/venv)")
        return 77
    command = [python, "-B", "-m", "pytest", "-q", "--rootdir", sys.argv[1], sys.argv[1]]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
