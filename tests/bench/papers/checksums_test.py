# SPDX-License-Identifier: MIT
#
# checksums_test.py: a checksum says that the work was done and nothing was lost. So it must be the same under every
# right malloc, and another one under a wrong one that hands out a block twice or loses contents (faulty_malloc.c).
"""Checksums of the papers' benchmarks."""

from __future__ import annotations

import unittest

import programs

# Work for some milliseconds; --threads is added. True: the checksum does not depend on the number of threads.
WORK = {
    "linux_scalability --preset michael --shrink 1000": False,
    "linux_scalability --preset lfmalloc --shrink 100": False,
    "linux_scalability --preset hmalloc --shrink 500": False,
    "threadtest --preset michael --shrink 100": False,
    "threadtest --preset lfmalloc --shrink 500": True,
    "threadtest --preset hmalloc --shrink 2500": True,
    "active_false --preset michael --shrink 50": False,
    "active_false --preset hmalloc --shrink 20000": False,
    "passive_false --preset michael --shrink 50": False,
    "passive_false --preset hmalloc --shrink 2000": False,
    "larson --preset today --generations 4 --shrink 2000": False,
    "larson --preset michael --shrink 500": False,
    "larson --preset lfmalloc --generations 4 --shrink 2000": False,
    "larson --preset streamflow --shrink 30": False,
    "larson --preset hmalloc --generations 4 --shrink 2000": False,
    "lockfree_producer_consumer --preset michael --shrink 200": True,
    "mmicro --preset lfmalloc --shrink 500": True,
    "mmicro --preset lfmalloc-table3 --shrink 500": True,
    "recycle --preset streamflow --shrink 500": False,
    "consume --preset streamflow --shrink 500": False,
    "consume --preset hmalloc --shrink 100": False,
    "consume --preset hmalloc-table1 --shrink 500": False,
    "shbench --preset hmalloc --shrink 20000": True,
    "largetest --preset hmalloc --shrink 5000": False,
    "largetest --preset hmalloc-table1 --groups 200 --shrink 5000": True,
}

# Programs that hold many blocks at once, and which sizes of theirs go wrong. (linux_scalability without --keep never
# holds more than one block a thread, for nanoseconds: nobody can write into it meanwhile but by chance.)
HELD = {
    "linux_scalability --preset hmalloc --shrink 500": (512, 512),
    "threadtest --preset michael --shrink 50": (8, 8),
    "threadtest --preset hmalloc --shrink 2500": (64, 64),
    "passive_false --preset hmalloc --shrink 1000": (8, 8),
    "larson --preset today --shrink 500": (100, 1000),
    "larson --preset michael --shrink 500": (50, 80),
    "larson --preset streamflow --shrink 30": (7, 7),
    "lockfree_producer_consumer --preset michael --shrink 200": (64, 80),
    "mmicro --preset lfmalloc --shrink 500": (200, 200),
    "recycle --preset streamflow --shrink 500": (8, 8),
    "consume --preset streamflow --shrink 500": (4, 4),
    "consume --preset hmalloc --shrink 100": (8, 8),
    "shbench --preset hmalloc --shrink 20000": (100, 1024),
    "largetest --preset hmalloc --shrink 5000": (64, 64),
}


class Checksums(unittest.TestCase):
    """Right mallocs."""

    def test_they_are_the_same_under_every_malloc(self) -> None:
        """And, where the work does not depend on it, with any number of threads."""
        for command, any_threads in WORK.items():
            found = {}
            for threads in (1, 3):
                seen = {programs.run(f"{command} --threads {threads}", each)["checksum"] for each in programs.LIBRARIES}
                self.assertEqual(len(seen), 1, f"{command}, {threads} threads: {seen}")
                found[threads] = seen.pop()
            self.assertEqual(len(set(found.values())), 1 if any_threads else 2, f"{command}: {found}")

    def test_work_is_divided_by_every_shrink(self) -> None:
        """A workload's declaration divides, and so does who tries it out."""
        self.assertEqual(programs.run("mmicro --shrink 100 --shrink 10")["ops"], 64_000)
        self.assertEqual(programs.run("mmicro --shrink 1000")["ops"], 64_000)


class WrongMallocs(unittest.TestCase):
    """A block handed out twice, and lost contents."""

    def checksum(self, command: str, kind: str, least: int, most: int) -> str | None:
        """Null if the program noticed in another way: it ended with a failure."""
        done = programs.start(
            command, programs.FAULTY, FAULTY_KIND=kind, FAULTY_LEAST=str(least), FAULTY_MOST=str(most)
        )
        return done.stdout.partition('"checksum": "')[2][:16] if done.returncode == 0 else None

    def test_they_are_noticed(self) -> None:
        """By every program that holds more than one block."""
        for command, (least, most) in HELD.items():
            work = f"{command} --threads 2"
            right = programs.run(work)["checksum"]
            self.assertEqual(self.checksum(work, "none", least, most), right, work)
            for kind in ("twice", "forget"):
                self.assertNotEqual(self.checksum(work, kind, least, most), right, f"{kind}: {work}")

    def test_threads_that_get_the_same_block_are_noticed(self) -> None:
        """active_false and passive_false write for so long that another thread's writes come in between."""
        for program in ("active_false", "passive_false"):
            work = f"{program} --preset michael --threads 3"
            right = programs.run(work)["checksum"]
            self.assertEqual(self.checksum(work, "none", 8, 8), right)
            self.assertNotEqual(self.checksum(work, "one", 8, 8), right, program)


class FixedTime(unittest.TestCase):
    """--seconds, the form of papers that count what is done in a fixed time."""

    def test_it_ends_and_counts(self) -> None:
        """In every program; work meant for minutes does not matter then."""
        done = set()
        for command in WORK:
            words = command.partition(" --shrink")[0]
            found = programs.run(f"{words} --threads 3 --seconds 0.02")
            self.assertGreater(found["ops"], 0, words)
            self.assertGreaterEqual(found["seconds"], 0.02, words)
            done.add(words.split()[0])
        self.assertEqual(len(done), 11)


if __name__ == "__main__":
    unittest.main()
