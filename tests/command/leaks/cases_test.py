# SPDX-License-Identifier: MIT
"""Each case of cases.c has the verdict that is written here, and LeakSanitizer's ($CASES_SANITIZED) is the same."""

from __future__ import annotations

import os
import re
import subprocess
import unittest

from leaking import CASES, LATE_LIBRARY, VARIABLES, Leaking, command, verdicts

# Direct and indirect leaks, in blocks, and their bytes.
EXPECTED = {
    "in_global": (0, 0, 0),
    "in_static": (0, 0, 0),
    "in_tls": (0, 0, 0),
    "in_library": (1, 0, 200),
    "lost": (1, 0, 100),
    "lost_by_overwriting": (1, 0, 100),
    "interior": (0, 0, 0),
    "last_byte": (0, 0, 0),
    "behind_the_end": (1, 0, 112),
    "tagged": (0, 0, 0),
    "encoded": (1, 0, 100),
    "at_odd_place": (1, 0, 100),
    "in_freed_block": (1, 0, 200),
    "in_cached_block": (1, 0, 2 << 20),
    "in_block_freed_long_ago": (1, 0, 200),
    "list_kept": (0, 0, 0),
    "list_lost": (1, 9, 160),
    "list_lost_from_the_middle": (1, 5, 96),
    "long_list": (0, 0, 0),
    "ring": (0, 2, 32),
    "itself": (1, 0, 16),
    "zero_bytes_kept": (0, 0, 0),
    "zero_bytes_lost": (1, 0, 0),
    "each_size": (75, 0, 320476),
    "strings": (1, 0, 9),
    "in_large": (0, 0, 0),
    "large_lost": (1, 1, (1 << 20) + 100),
    "end_of_huge": (0, 0, 0),
    "huge_lost": (1, 0, 300 << 20),
    "aligned": (2, 0, 200),
    "moved": (1, 0, 300000),
    "in_mapping": (0, 0, 0),
    "in_hidden_mapping": (1, 0, 100),
    "in_own_heap": (1, 0, 200),
    "in_destroyed_heap": (2, 0, 400),
    "after_trim": (1, 9, 160),
    "files": (0, 0, 0),
    "running_thread": (1, 0, 200),
    "running_thread_s_tls": (1, 0, 200),
    "running_thread_s_specific": (1, 0, 200),
    "ended_thread": (2, 0, 300),
    "ended_thread_s_tls": (3, 0, 400),
    "ended_threads": (60, 0, 8000),
    "thread_on_other_stack": (0, 0, 0),
    "exit_in_thread": (1, 0, 200),
    "on_stack": (0, 0, 0),
    "other_stack": (0, 0, 0),
    "child": (1, 0, 300),
    "no_exit": (0, 0, 0),
    "failing": (1, 0, 100),
    "killed": (1, 0, 100),  # by SIGTERM, before which the command looks
}
# Memory that a program maps for itself holds blocks, which LeakSanitizer must be told (docs/decisions/041). It does not
# look when a signal ends the program.
OTHERWISE_FOR_LEAK_SANITIZER = {"in_mapping": (1, 0, 100), "killed": (0, 0, 0)}
# There are such heaps with Freeway only.
NOT_FOR_LEAK_SANITIZER = ("in_own_heap", "in_destroyed_heap")
# Its blocks of no bytes have one; blocks that are aligned count here with the bytes that they have got.
OTHER_BYTES = ("zero_bytes_lost", "aligned")
STATUSES = {"failing": 3, "killed": -15}
MODES = (
    {},
    {"FREEWAY_RSEQ": "0"},
    {"FREEWAY_HARDEN": "1"},
    {"FREEWAY_GUARD": "1,large"},
)


def arguments_of(case: str) -> list[str]:
    return [case, LATE_LIBRARY] if case == "in_library" else [case]


class Cases(Leaking):
    def profiled_bytes(self) -> int:
        """The sum of the profiles' leaked bytes."""
        total = 0
        for path in self.folder.glob("*.heap"):
            header = re.match(r"heap profile: \d+: (\d+) \[", path.read_text())
            assert header is not None
            total += int(header[1])
        return total

    def check(self, case: str, variables: dict[str, str]) -> None:
        for left in self.folder.iterdir():
            left.unlink()
        dump = f"--leaks-dump={self.folder}/leaks"
        done = command(
            "run", "--leaks", dump, "--", CASES, *arguments_of(case), status=STATUSES.get(case, 0), env=variables
        )
        direct, indirect, size = EXPECTED[case]
        found = verdicts(done.stderr)
        self.assertEqual(sum(v.direct for v in found), direct, done.stderr)
        self.assertEqual(sum(v.indirect for v in found), indirect, done.stderr)
        self.assertEqual(sum(v.blocks for v in found), direct + indirect)
        self.assertEqual(self.profiled_bytes(), size)
        self.assertEqual(len(found), 0 if case == "no_exit" else 2 if case == "child" else 1)
        self.assertNotIn("no room", done.stderr)

    def test_each_has_its_verdict_in_each_mode(self) -> None:
        for variables in MODES:
            for case in EXPECTED:
                with self.subTest(case=case, variables=variables):
                    self.check(case, variables)

    def test_what_is_not_sampled_holds_blocks_or_does_not_all_the_same(self) -> None:
        # A block of 1 MiB and more is a sample, but for one chance in e^64.
        for case, direct in (
            ("in_cached_block", 1),
            ("in_large", 0),
            ("large_lost", 1),
            ("end_of_huge", 0),
            ("huge_lost", 1),
        ):
            for variables in MODES:
                with self.subTest(case=case, variables=variables):
                    (found,) = verdicts(command("run", "--leaks=16k", "--", CASES, case, env=variables).stderr)
                    self.assertEqual(found.direct, direct)

    def test_leak_sanitizer_s_is_the_same(self) -> None:
        program = os.environ["CASES_SANITIZED"]
        if not program:
            self.skipTest("the compiler has no LeakSanitizer")
        for case, expected in EXPECTED.items():
            if case in NOT_FOR_LEAK_SANITIZER:
                continue
            with self.subTest(case=case):
                done = subprocess.run(
                    [program, *arguments_of(case)],
                    env=VARIABLES,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                if "LeakSanitizer has encountered a fatal error" in done.stderr:
                    self.skipTest("LeakSanitizer may trace nobody here")
                counts = {"Direct": 0, "Indirect": 0}
                size = 0
                for kind, total, blocks in re.findall(
                    r"^(Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object", done.stderr, re.MULTILINE
                ):
                    counts[kind] += int(blocks)
                    size += int(total)
                direct, indirect, own_size = OTHERWISE_FOR_LEAK_SANITIZER.get(case, expected)
                self.assertEqual(counts, {"Direct": direct, "Indirect": indirect}, done.stderr)
                if case not in OTHER_BYTES:
                    self.assertEqual(size, own_size)


if __name__ == "__main__":
    unittest.main(verbosity=2)
