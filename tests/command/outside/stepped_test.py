# SPDX-License-Identifier: MIT
"""Tests of looking into a process that stands still after any number of instructions of malloc and free."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import unittest
from pathlib import Path

from looking import Looking, figures, look

STEPPER = os.environ["STEPPER"]
# In the hands of a thread that stands in a refill or a flush: a batch, and the block that it is about.
MOST_IN_HAND = 2 * 128 + 1


class Stepped(Looking):
    def test_inside_malloc_nothing_is_missed(self) -> None:
        seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
        print(f"SEED={seed}")
        steps = random.Random(seed)
        pid, said = self.known("step", FREEWAY_RSEQ="0")
        with subprocess.Popen([STEPPER, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stepper:
            assert stepper.stdin is not None and stepper.stdout is not None
            for _ in range(30):
                stepper.stdin.write(f"{steps.randrange(1, 500)}\n")
                stepper.stdin.flush()
                self.assertEqual(stepper.stdout.readline(), "there\n")
                extra = figures(pid)["live_blocks"] - said["live_blocks"]
                self.assertTrue(0 <= extra <= 64 + MOST_IN_HAND, extra)

    def test_what_is_held_is_live_wherever_the_holder_stops(self) -> None:
        for harden in ("0", "1"):
            pid, said = self.known("step", FREEWAY_RSEQ="0", FREEWAY_HARDEN=harden)
            in_hand = 0
            with (
                subprocess.Popen(
                    [STEPPER, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                ) as stepper,
                Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory,
            ):
                assert stepper.stdin is not None and stepper.stdout is not None
                for _ in range(70):
                    stepper.stdin.write("37\n")
                    stepper.stdin.flush()
                    self.assertEqual(stepper.stdout.readline(), "there\n")
                    memory.seek(said["hands"][0])
                    held = [block for block in struct.unpack("64Q", memory.read(512)) if block != 0]
                    if not held:
                        continue
                    text = look("blocks", pid, *map(hex, held)).stdout
                    lines = [line for line in text.splitlines() if line.startswith("freeway: ")]
                    self.assertEqual(len(lines), len(held))
                    # But for the one that it is about to free: that is still in its list.
                    other = [line for line in lines if " is the beginning of a live " not in line]
                    self.assertLessEqual(len(other), 1, other)
                    in_hand += any("in the hand of a thread inside malloc or free" in line for line in other)
            self.assertEqual(in_hand > 0, harden == "1")  # elsewhere nothing tells such a block from a live one


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
