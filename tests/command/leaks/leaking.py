# SPDX-License-Identifier: MIT
"""What the tests of leaks share: programs ($CASES and the like), the command ($FREEWAY_COMMAND), and its verdicts."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

COMMAND = os.environ["FREEWAY_COMMAND"]
LIBRARY = os.environ["FREEWAY_LIB"]
CASES = os.environ["CASES"]
FRAMELESS = os.environ["CASES_FRAMELESS"]
STATIC = os.environ["CASES_STATIC"]
LATE_LIBRARY = os.environ["LEAKS_LIBRARY"]
VARIABLES = {k: v for k, v in os.environ.items() if not k.startswith("FREEWAY_") and k != "LD_PRELOAD"}
VARIABLES["FREEWAY_LIB"] = LIBRARY
REFUSED, WRONG_VALUE, OWN_FAILURE = 1, 2, 125

VERDICT = re.compile(
    r"(?P<name>\S+) \((?P<pid>\d+)\): (?:no leaks among (?P<clean>[\d,]+) (?:sampled )?blocks?"
    r"|leaked: (?P<bytes>.*) in (?P<blocks>[\d,]+) blocks?(?P<estimated>, estimated from [\d,]+ samples?)?: "
    r"(?P<direct>[\d,]+) direct, (?P<indirect>[\d,]+) indirect)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Verdict:
    pid: int
    blocks: int
    direct: int
    indirect: int
    bytes: str


def verdicts(text: str) -> list[Verdict]:
    """What the command says of each process."""
    found = []
    for match in VERDICT.finditer(text):
        counts = [int((match[key] or "0").replace(",", "")) for key in ("pid", "blocks", "direct", "indirect")]
        found.append(Verdict(*counts, match["bytes"] or "0 B"))
    return found


def command(
    *arguments: object, status: int | None = 0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What the command says."""
    argv = [COMMAND, *map(str, arguments)]
    done = subprocess.run(argv, env=VARIABLES | (env or {}), capture_output=True, text=True, timeout=120, check=False)
    if status is not None and done.returncode != status:
        raise AssertionError(f"{argv}: status {done.returncode} instead of {status}: {done.stderr}")
    return done


def preloaded(program: str) -> dict[str, str]:
    return {} if program == STATIC else {"LD_PRELOAD": LIBRARY}


class Leaking(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="freeway-leaks-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        cores = tempfile.TemporaryDirectory(prefix="cores-", dir=os.environ["FREEWAY_BUILD_DIR"])  # they are large
        self.addCleanup(cores.cleanup)
        self.cores = Path(cores.name)

    def start(self, *argv: str, **variables: str) -> subprocess.Popen[str]:
        """A process under Freeway that has said that it is ready."""
        process = subprocess.Popen(
            argv, env=VARIABLES | preloaded(argv[0]) | variables, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process
