# SPDX-License-Identifier: MIT
"""What docs/profiles.md promises of examples/leaky_server.c ($LEAKY_SERVER): two dumps on a signal, and their
difference names the function whose blocks are left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

COMMAND = Path(os.environ["FREEWAY_COMMAND"])
LIBRARY = os.environ["FREEWAY_LIB"]
SERVER = os.environ["LEAKY_SERVER"]
PAGE = Path(__file__).resolve().parents[3] / "docs/profiles.md"
INTERVAL, FEW, MANY = 4096, 1000, 10000


def wait_for(dump: Path) -> None:
    """Returns when the file is there, and whole."""
    while not dump.exists() or "MAPPED_LIBRARIES" not in dump.read_text():
        time.sleep(0.01)


class Leak(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="freeway-leaky-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def visit(self, requests: int) -> None:
        while (
            subprocess.run([SERVER, "socket", str(requests)], cwd=self.folder, check=False, timeout=60).returncode != 0
        ):
            time.sleep(0.01)  # it does not listen yet

    def test_difference_of_two_dumps_names_where_sessions_begin(self) -> None:
        profile = {"FREEWAY_PROFILE": f"{INTERVAL},prefix=leaky,dump=signal:USR1", "FREEWAY_LIB": LIBRARY}
        command = [COMMAND, "run", "--", SERVER, "socket"]
        server = subprocess.Popen(command, cwd=self.folder, env={**os.environ, **profile})
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        dumps = [self.folder / f"leaky.{server.pid}.{number}.heap" for number in (1, 2)]
        for dump, requests in zip(dumps, (FEW, MANY), strict=True):
            self.visit(requests)
            server.send_signal(signal.SIGUSR1)
            wait_for(dump)
        done = subprocess.run(
            [COMMAND, "profile", "diff", *dumps], capture_output=True, text=True, timeout=60, check=True
        )
        first = done.stdout.partition("where\n")[2].splitlines()[0]
        self.assertRegex(first, r"begin_session \(leaky_server\.c:\d+\)$")
        # The line of the page is that of the source.
        line = re.search(r"leaky_server\.c:(\d+)", first)
        assert line is not None
        self.assertIn(f"begin_session (leaky_server.c:{line[1]})", PAGE.read_text())


if __name__ == "__main__":
    unittest.main()
