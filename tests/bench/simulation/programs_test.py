# SPDX-License-Identifier: MIT
"""Tests of the simulation programs, run as the laboratory runs them.

The same committed events under glibc's malloc and Freeway, by any number of threads and any synchronisation; the
figures that each line has; the profiles: what HMalloc (2020) says of its simulations' memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(os.environ["FREEWAY_SOURCE_DIR"]) / "bench"))
from harness.catalogue.simulation import WORKLOADS

PROGRAMS = Path(os.environ["FREEWAY_BUILD_DIR"]) / "bench/workloads"
LIBRARY = os.environ["FREEWAY_LIB"]
HMALLOC = os.environ.get("HMALLOC_LIBRARY")  # the one engine with thread-local memory of its own
MODELS = {"phold": "200", "pcs": "100", "airport": "200"}  # with what each is shrunk here
HEADER = 64  # bytes of the engine in each event's block
COMMON = {"name", "ops", "seconds", "cpu_seconds", "checksum", "rss_peak_kib", "minor_faults"}


def run(program: str, *arguments: str, library: str = "") -> dict[str, float | str]:
    """The line of one run, under `library` or glibc's malloc."""
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "FREEWAY_RSEQ")}
    if library:
        environment["LD_PRELOAD"] = library
    command = [str(PROGRAMS / program), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


class Programs(unittest.TestCase):
    def test_same_events_under_every_allocator_thread_count_and_synchronisation(self) -> None:
        for program, shrink in MODELS.items():
            wanted = run(program, "--sync", "sequential", "--shrink", shrink)
            self.assertGreater(wanted["ops"], 1000)
            for library in ("", LIBRARY):
                for ways in ("conservative 1", "conservative 3", "timewarp 2", "timewarp 8"):
                    sync, threads = ways.split()
                    line = run(program, "--sync", sync, "--threads", threads, "--shrink", shrink, library=library)
                    with self.subTest(program=program, library=library, ways=ways):
                        self.assertEqual((line["ops"], line["checksum"]), (wanted["ops"], wanted["checksum"]))
                        self.assertGreaterEqual(
                            line.keys(),
                            COMMON | {"rolled_back", "anti_messages", "rounds", "allocations", "remote_percent"},
                        )
                        self.assertGreater(line["rounds"], 0)

    @unittest.skipUnless(HMALLOC, "libfreeway-hmalloc.so is not built")
    def test_hinted_blocks_are_freed_by_their_own_thread(self) -> None:
        """Or libfreeway-hmalloc.so would end the process."""
        for program, shrink in MODELS.items():
            arguments = ("--sync", "timewarp", "--threads", "3", "--shrink", shrink)
            hinted = run(program, *arguments, "--hint", library=str(HMALLOC))
            self.assertEqual(hinted["checksum"], run(program, *arguments)["checksum"], program)
            # Not all are: events for other threads, and anti-messages.
            local = float(run(program, *arguments, "--hint", "--profile", library=str(HMALLOC))["local_percent"])
            self.assertTrue(30 < local < 100, f"{program}: {local} %")

    def test_seed_and_parameters_change_the_events(self) -> None:
        def checksum(program: str, *arguments: str) -> float | str:
            return run(program, "--shrink", "400", *arguments)["checksum"]

        for program, parameter in (("phold", "remote"), ("pcs", "events-per-cell"), ("airport", "planes")):
            runs = {checksum(program, *extra) for extra in ((), ("--seed", "2"), (f"--{parameter}", "60"))}
            self.assertEqual(len(runs), 3, program)

    def test_wrong_arguments_are_refused(self) -> None:
        for arguments in (["--remote", "101"], ["--remote", "x"], ["--sync", "none"], ["--mapping", "random"]):
            done = subprocess.run([PROGRAMS / "phold", *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(arguments[0], done.stderr)

    def test_profiles(self) -> None:
        """HMalloc, Table 1 and section 2.1: every block is for any thread, all of a program's have one size: 8 bytes in
        PHOLD and 36 in PCS, here behind the engine's own words."""
        for program, size in (("phold", 8), ("pcs", 36), ("airport", 24)):
            line = run(program, "--profile", "--threads", "2", "--shrink", MODELS[program])
            self.assertEqual(line["mean_size"], -(-(HEADER + size) // 8) * 8, program)
            self.assertEqual(line["objects_large"], 0)
            self.assertAlmostEqual(float(line["local_percent"]) + float(line["remote_percent"]), 100, delta=0.01)
            self.assertEqual(line["objects_small"], line["frees"])
        # Half of the events that go anywhere go to the other one of two threads; the first ones all stay.
        for remote in ("0", "50", "100"):
            line = run("phold", "--profile", "--threads", "2", "--remote", remote, "--shrink", "50")
            sent = 1 - 1024 * 16 / float(line["objects_small"])
            self.assertAlmostEqual(float(line["remote_percent"]), sent * int(remote) / 2, delta=1)

    def test_neighbours_on_different_threads_make_more_remote_frees(self) -> None:
        for program in ("pcs", "airport"):
            shares = [
                run(program, "--threads", "2", "--mapping", mapping, "--shrink", MODELS[program])["remote_percent"]
                for mapping in ("blocks", "round-robin")
            ]
            self.assertLess(float(shares[0]) * 3, float(shares[1]), program)


class Catalogue(unittest.TestCase):
    def test_every_workload_runs_and_has_its_figures(self) -> None:
        for workload in WORKLOADS:
            argv = [word.replace("{threads}", "2") for word in workload.argv]
            line = run(argv[0], *argv[1:], "--shrink", "1000")
            for metric in workload.metrics:
                self.assertGreaterEqual(metric.value(line), 0, workload.name)

    def test_the_papers_curves_have_both_ends(self) -> None:
        """Section 4.6 to 4.8: 0 to 100 % remote events, 20 to 200 events a cell, 50 to 500 planes; conservative."""
        ends = {
            "Fig. 12": ("--remote", 0, 100),
            "Fig. 13": ("--events-per-cell", 20, 200),
            "Fig. 14": ("--planes", 50, 500),
        }
        for item, (option, lowest, highest) in ends.items():
            points = [w.argv for w in WORKLOADS if w.item == item and "conservative" in w.argv and "papers" in w.suites]
            values = [int(argv[argv.index(option) + 1]) for argv in points]
            self.assertEqual((min(values), max(values)), (lowest, highest), item)


if __name__ == "__main__":
    unittest.main()
