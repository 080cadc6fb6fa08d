# SPDX-License-Identifier: MIT
"""What the tests of looking from outside share: programs whose heap is known ($KNOWN_HEAP, $KNOWN_HEAP_STATIC), and the
command ($FREEWAY_COMMAND)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

COMMAND = os.environ["FREEWAY_COMMAND"]
LIBRARY = Path(os.environ["FREEWAY_LIB"])
KNOWN = os.environ["KNOWN_HEAP"]
STATIC = os.environ["KNOWN_HEAP_STATIC"]
VARIABLES = {k: v for k, v in os.environ.items() if not k.startswith("FREEWAY_") and k != "LD_PRELOAD"}
REFUSED, WRONG_USAGE = 1, 2
SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


def look(
    *arguments: object, status: int = 0, env: dict[str, str] | None = None, cwd: str | None = None
) -> subprocess.CompletedProcess[str]:
    """What the command says."""
    argv = [COMMAND, *map(str, arguments)]
    done = subprocess.run(
        argv, env=VARIABLES | (env or {}), cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != status:
        raise AssertionError(f"{argv}: status {done.returncode} instead of {status}: {done.stderr}")
    return done


def figures(target: object) -> dict[str, Any]:
    return json.loads(look("stat", target, "--json").stdout)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


class Looking(unittest.TestCase):
    """Starts programs, and ends them."""

    def start(self, *argv: str, stops: bool = True, **variables: str) -> subprocess.Popen[bytes]:
        """A process that has said what it has, and has stopped unless it is not to."""
        if argv[0] not in (KNOWN, STATIC) and os.geteuid() != 0 and SCOPE.exists() and SCOPE.read_text() != "0\n":
            self.skipTest("of processes that do not say that anybody may, only ancestors may read the memory here")
        process = subprocess.Popen(argv, env=VARIABLES | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        while stops and state_of(process.pid) != "T":
            self.assertIsNone(process.poll(), argv)
            time.sleep(0.005)
        return process

    def known(self, *arguments: str, program: str = KNOWN, **variables: str) -> tuple[int, dict[str, Any]]:
        """The number of a process, and what it said of itself."""
        process = self.start(program, *arguments, stops="busy" not in arguments, **variables)
        self.process = process
        return process.pid, json.loads(self.account_of(process))

    def account_of(self, process: subprocess.Popen[bytes]) -> bytes:
        """What the program has written about itself: JSON, up to a line that ends it."""
        assert process.stdout is not None
        text = b""
        while not text.endswith(b"]}\n"):
            line = process.stdout.readline()
            self.assertNotEqual(line, b"", f"{process.args} ended early")
            text += line
        return text

    def core(self, pid: int) -> Path:
        """A core file of the process, which goes on as it was."""
        if shutil.which("gcore") is None:
            self.skipTest("gdb, which has gcore, is not installed")
        folder = tempfile.TemporaryDirectory(prefix="freeway-core-", dir=os.environ["FREEWAY_BUILD_DIR"])
        self.addCleanup(folder.cleanup)
        subprocess.run(["gcore", "-o", f"{folder.name}/core", str(pid)], capture_output=True, timeout=60, check=True)
        return Path(folder.name) / f"core.{pid}"

    def check_figures(self, said: dict[str, Any], seen: dict[str, Any]) -> None:
        for name, value in said.items():
            if name not in ("addresses", "hands"):
                self.assertEqual(seen[name], value, name)
        self.assertEqual(seen["schema"], 1)
        self.assertEqual(seen["engine"], "freeway")
        self.assertEqual(seen["allocated"], said["live"])
        self.assertEqual(seen["active"], said["mapped"] - said["dirty"])
