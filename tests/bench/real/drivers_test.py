# SPDX-License-Identifier: MIT
#
# Drivers of real programs, on tiny inputs, under glibc's malloc and under Freeway: the right malloc was in the measured
# program (the loader says so), the output does not depend on it, and what is missing is said.
"""Tests of bench/real."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

SOURCE = Path(os.environ["FREEWAY_SOURCE_DIR"])
REAL = SOURCE / "bench/real"
FREEWAY = Path(os.environ["FREEWAY_LIB"])
NOT_INSTALLED = 77
SHRINK = "100"
sys.path.insert(0, str(SOURCE / "bench"))

from harness.allocators import libc  # noqa: E402
from harness.catalogue import small  # noqa: E402
from harness.catalogue.real import WORKLOADS  # noqa: E402
from harness.loaded import fault_of_bindings  # noqa: E402

KEYS = {"ops", "seconds", "cpu_seconds", "user_s", "system_s", "rss_peak_kib", "minor_faults", "checksum"}


class Drivers(unittest.TestCase):
    """Each driver runs in a folder of its own."""

    def setUp(self) -> None:
        """An empty folder."""
        self.folder = Path(tempfile.mkdtemp(prefix="freeway-real-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, argv: tuple[str, ...], preload: Path) -> subprocess.CompletedProcess[str]:
        """One run of a driver in an empty folder; the loader's reports go beside it."""
        work, bindings = (Path(tempfile.mkdtemp(dir=self.folder)) for _ in range(2))
        self.bindings = bindings / "bindings"
        env = {**os.environ, "LAB_PRELOAD": str(preload), "LAB_BINDINGS": str(self.bindings), "LAB_VARIABLES": "{}"}
        command = [sys.executable, str(REAL / argv[0]), *argv[1:], "--shrink", SHRINK]
        return subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, timeout=100, check=False)

    def result(self, argv: tuple[str, ...], preload: Path) -> dict[str, Any]:
        """The line that a driver prints; skips the test if the program is not installed."""
        done = self.start(argv, preload)
        if done.returncode == NOT_INSTALLED:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(fault_of_bindings(self.bindings, preload), "")
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1, done.stdout)
        return json.loads(lines[0])

    def same_under_both(self, *argv: str) -> None:
        """All keys, some work, some time, and the same checksum."""
        plain = self.result(argv, libc())
        ours = self.result(argv, FREEWAY)
        for found in (plain, ours):
            self.assertLessEqual(KEYS, set(found))
            self.assertGreater(found["ops"], 0)
            self.assertGreater(found["cpu_seconds"], 0)
            self.assertGreater(found["rss_peak_kib"], 500)
        self.assertRegex(plain["checksum"], "^[0-9a-f]{16}$")
        self.assertEqual((plain["checksum"], plain["ops"]), (ours["checksum"], ours["ops"]))

    def test_sqlite(self) -> None:
        """A command-line program."""
        self.same_under_both("sqlite.py")

    def test_small(self) -> None:
        """Programs that do little; each prints the same."""
        for workload in small.WORKLOADS:
            with self.subTest(workload.name):
                self.same_under_both(*(word.removeprefix("real/") for word in workload.argv))

    def test_python(self) -> None:
        """An interpreter, with malloc for every object."""
        self.same_under_both("python.py", "--script", "text", "--objects", "malloc")

    def test_pool_and_malloc_compute_the_same(self) -> None:
        """PYTHONMALLOC changes the work of malloc, not the script's."""
        found = [self.result(("python.py", "--script", "classes", "--objects", o), FREEWAY) for o in ("pool", "malloc")]
        self.assertEqual(found[0]["checksum"], found[1]["checksum"])

    def test_redis(self) -> None:
        """A server, linked with another malloc."""
        self.same_under_both("redis.py")
        self.same_under_both("redis.py", "--work", "churn")

    def test_mariadb(self) -> None:
        """A server of many threads."""
        self.same_under_both("mariadb.py")

    def test_git(self) -> None:
        """A program that starts others."""
        self.same_under_both("git.py")

    def test_z3(self) -> None:
        """A solver."""
        self.same_under_both("z3.py")

    def test_different_work_is_seen_in_the_checksum(self) -> None:
        """Else equal checksums would say nothing."""
        one = self.result(("python.py", "--script", "text"), FREEWAY)
        other = self.result(("python.py", "--script", "classes"), FREEWAY)
        self.assertNotEqual(one["checksum"], other["checksum"])

    def test_missing_program_is_said_with_its_package(self) -> None:
        """Status 77 and what to install."""
        code = "import driver; driver.program('no-such-program', 'its-package')"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=REAL, capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual((done.returncode, done.stdout), (NOT_INSTALLED, ""))
        self.assertIn("no-such-program", done.stderr)
        self.assertIn("its-package", done.stderr)

    def test_failing_program_fails_the_driver(self) -> None:
        """A crash under an allocator must not become a figure."""
        broken = self.folder / "broken.so"
        code = "void* malloc(unsigned long n) { __builtin_trap(); }"
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-xc", "-", "-o", broken], input=code, text=True, check=True)
        done = self.start(("sqlite.py",), broken)
        self.assertNotIn(done.returncode, (0, NOT_INSTALLED))
        self.assertEqual(done.stdout, "")

    def test_declared_drivers_take_their_arguments(self) -> None:
        """Drivers exist, and argparse knows what the catalogue gives them."""
        for workload in WORKLOADS:
            driver = SOURCE / "bench" / workload.argv[0]
            command = [sys.executable, str(driver), *workload.argv[1:], "--shrink", "1", "--help"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, f"{workload.name}: {done.stderr}")

    def test_packages_are_the_group_real(self) -> None:
        """What the drivers ask for is what scripts/install-packages installs for them, and nothing else."""
        lines = (SOURCE / "scripts/packages.txt").read_text().splitlines()
        listed = {line.split()[1] for line in lines if line.startswith("real ")}
        drivers = "".join(path.read_text() for path in REAL.glob("*.py"))
        asked = set(re.findall(r'program\("[^"]+", "([^"]+)"\)', drivers))
        asked |= {package for package in listed if f'"{package}"' in drivers}
        self.assertEqual(asked, listed)


if __name__ == "__main__":
    unittest.main()
