# SPDX-License-Identifier: MIT
#
# checksums_test.py: the checksums are the same under every right malloc and with every number of threads, and differ
# (or the program fails) under one that hands out a block twice or loses contents.
"""Checksums of the Streamflow paper's programs."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "papers"))
import programs

# Work for some milliseconds.
WORK = {
    "knary": "knary --shrink 2000",
    "barnes": "barnes --shrink 200",
    "mpcdm": "mpcdm --shrink 1000 --subdomain 500",
    "parser_like": "parser_like --shrink 4000",
}
# The sizes that go wrong.
FAULTY_SIZES = {"knary": (40, 40), "barnes": (16, 56), "mpcdm": (12, 40), "parser_like": (12, 24)}


def outcome(command: str, kind: str, sizes: tuple[int, int], seconds: int) -> str | None:
    """The checksum; None if the program failed or was still running after so long."""
    limited = f"timeout -s KILL {seconds} {programs.WORKLOADS}/{command}".split()
    variables = {"FAULTY_KIND": kind, "FAULTY_LEAST": str(sizes[0]), "FAULTY_MOST": str(sizes[1])}
    done = subprocess.run(
        ["env", f"LD_PRELOAD={programs.FAULTY}", *(f"{name}={value}" for name, value in variables.items()), *limited],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.partition('"checksum": "')[2][:16] if done.returncode == 0 else None


class Checksums(unittest.TestCase):
    """Of all four programs."""

    def test_they_are_the_same_under_every_malloc_and_number_of_threads(self) -> None:
        """glibc, the flagship, and a peer."""
        for command in WORK.values():
            seen = {
                programs.run(f"{command} --threads {threads}", library)["checksum"]
                for threads in (1, 2, 8)
                for library in programs.LIBRARIES
            }
            self.assertEqual(len(seen), 1, command)

    def test_they_tell_one_seed_from_another(self) -> None:
        """A checksum that is always the same would pass the test above."""
        for command in ("barnes", "mpcdm", "parser_like"):
            sums = {programs.run(f"{WORK[command]} --seed {seed}")["checksum"] for seed in (1, 2, 3)}
            self.assertEqual(len(sums), 3, command)
        self.assertNotEqual(
            programs.run("knary --depth 4")["checksum"], programs.run("knary --depth 4 --branching 4")["checksum"]
        )

    def test_wrong_mallocs_are_noticed(self) -> None:
        """By a failure, by not ending, or by another checksum."""
        for name, command in WORK.items():
            right = programs.run(f"{command} --threads 1")["checksum"]
            rightly = outcome(f"{command} --threads 1", "none", FAULTY_SIZES[name], seconds=programs.TIMEOUT_S)
            self.assertEqual(rightly, right, name)
            for kind in ("twice", "forget"):
                wrong = outcome(f"{command} --threads 1", kind, FAULTY_SIZES[name], seconds=2)
                self.assertNotEqual(wrong, right, f"{name}, {kind}")

    def test_only_the_papers_preset_is_known(self) -> None:
        """A wrong name must not measure something else."""
        for command in WORK.values():
            right = programs.run(command)["checksum"]
            self.assertEqual(programs.run(f"{command} --preset streamflow")["checksum"], right)
            self.assertEqual(programs.start(f"{command} --preset hmalloc").returncode, 2)


class Catalogue(unittest.TestCase):
    """harness/catalogue/streamflow.py."""

    def test_declarations_run(self) -> None:
        """Each with the paper's numbers of threads, on a small part of the work."""
        from harness.catalogue import streamflow

        names = {workload.name.partition("-")[0] for workload in streamflow.WORKLOADS}
        self.assertEqual(names, {"parser", "knary", "barnes", "mpcdm"})
        for workload in streamflow.WORKLOADS:
            self.assertEqual(workload.scaling, () if workload.name.startswith("parser") else tuple(range(1, 9)))
            command = " ".join(workload.argv).replace("{threads}", "2")
            result = programs.run(f"{command} --shrink 500")
            for metric in workload.metrics:
                self.assertGreater(metric.value(result), 0)


if __name__ == "__main__":
    unittest.main()
