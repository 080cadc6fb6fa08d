# SPDX-License-Identifier: MIT
"""What preload.py promises its tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEST = """
import sys
sys.path.insert(0, sys.argv[1])
from preload import library, main, succeed
def leaves_a_file(_):
    succeed(["sh", "-c", "mkdir testdir && echo left > testdir/test.db"], preload=False)
    assert library().is_file()
main(leaves_a_file)
"""


def test_what_programs_leave_behind_is_not_where_the_test_was_started(tmp_path: Path) -> None:
    (tmp_path / "lib.so").touch()
    environment = {"FREEWAY_LIB": "lib.so", "PATH": "/usr/bin:/bin"}  # by hand it may be a relative name
    done = subprocess.run(
        [sys.executable, "-B", "-c", TEST, str(HERE)], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["lib.so"]
