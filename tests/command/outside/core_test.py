# SPDX-License-Identifier: MIT
"""Tests of `freeway stat` of core files, and of programs that carry the library in them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from looking import KNOWN, STATIC, VARIABLES, Looking, figures


class Core(Looking):
    def test_the_static_library_too_also_stripped(self) -> None:
        pid, said = self.known(program=STATIC)
        self.check_figures(said, figures(pid))
        stripped = self.core(pid).parent / "stripped"
        subprocess.run(["strip", "-o", stripped, STATIC], check=True)
        pid, said = self.known(program=str(stripped))
        stripped.unlink()  # and its file is gone
        self.check_figures(said, figures(pid))

    def test_of_a_core_file_every_figure_is_the_processes_own(self) -> None:
        for program, variables in ((KNOWN, {"FREEWAY_RSEQ": "0"}), (KNOWN, {"FREEWAY_HARDEN": "1"}), (STATIC, {})):
            with self.subTest(program=program):
                pid, said = self.known(program=program, **variables)
                seen = figures(self.core(pid))
                self.check_figures(said, seen)
                self.assertEqual(seen["pid"], pid)
                self.assertIsNone(seen["resident"])

    def test_of_one_that_the_kernel_wrote(self) -> None:
        with tempfile.TemporaryDirectory(prefix="freeway-core-", dir=os.environ["FREEWAY_BUILD_DIR"]) as folder:
            for program in (KNOWN, STATIC):
                process = subprocess.Popen(
                    ["prlimit", "--core=unlimited:unlimited", program],
                    env=VARIABLES,
                    cwd=folder,
                    stdout=subprocess.PIPE,
                )
                text = self.account_of(process)
                process.send_signal(signal.SIGABRT)
                process.send_signal(signal.SIGCONT)
                process.communicate(timeout=60)
                cores = list(Path(folder).glob("core*"))
                if not cores:
                    self.skipTest(f"core files go elsewhere: {Path('/proc/sys/kernel/core_pattern').read_text()}")
                seen = figures(cores[0])
                self.check_figures(json.loads(text), seen)
                self.assertEqual(seen["pid"], process.pid)
                cores[0].unlink()


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
