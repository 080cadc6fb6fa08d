# SPDX-License-Identifier: MIT
"""Dumps that are cut off, that lie, or that are noise: a clear error or a warning, no crash. SEED=n repeats one."""

from __future__ import annotations

import os
import random
import secrets
import unittest

from dumps import BAD_INPUT, MAPS, PINS, SAMPLES, SUPERBLOCKS, WASTED, InAFolder, dump_of

SEED = int(os.environ.get("SEED") or secrets.randbelow(1 << 31))
FORMS = ("text", "collapsed", "html", "proto")
COPY = "#copy 3 arch=x86_64 pc=0x401005 sp=0x7fff0000 fp=0x7fff0040 rbx=0x1 r12=0x2\n#copy+ " + "00ff" * 32 + "\n"
LINES = (
    dump_of(SAMPLES + WASTED, superblocks=SUPERBLOCKS, pins=PINS)
    .replace("age_ms=3000", "age_ms=3000 copy=3")
    .replace("MAPPED", COPY + "MAPPED")
)


class Garbage(InAFolder):
    def refused(self, dump: str, *words: str) -> None:
        path = self.file("dump", dump)
        for form in FORMS:
            outcome = self.run_profile("convert", "--format", form, path)
            message = outcome.stderr.decode()
            self.assertEqual((outcome.returncode, outcome.stdout), (BAD_INPUT, b""), message)
            self.assertEqual(message.count("\n"), 1, message)
            for word in (path, *words):
                self.assertIn(word, message)

    def warned(self, dump: str, *words: str) -> str:
        outcome = self.run_profile("convert", "--format", "collapsed", self.file("dump", dump))
        self.assertEqual(outcome.returncode, 0)
        for word in words:
            self.assertIn(word, outcome.stderr.decode())
        return outcome.stdout.decode()

    def test_what_is_no_heap_profile_is_refused(self) -> None:
        for text in ("hello\n", "--- contention\n", "\x7fELF\x02\n", "\n\n"):
            self.refused(text, "no heap profile")
        self.refused("", "is empty")
        self.refused("heap profile: 1: 2", "no whole line")
        self.refused("heap profile: 1: 2 [1: 2] @ heapprofile\n", "line 1", "heap_v2")
        self.refused("heap profile: 1: 2 [1: 2] @ heap_v2/x\n", "line 1", "interval")

    def test_wrong_line_is_refused_with_its_number(self) -> None:
        for line, words in (
            ("1: 2 [1: 2 @ 0x1", ["']'"]),
            ("one: 2 [1: 2] @ 0x1", ["live blocks"]),
            ("1: 2 [1: -2] @ 0x1", ["no number"]),
            ("0: 2 [1: 2] @ 0x1", ["bytes without a block"]),
            ("1: 2 [1: 2] @ 1234", ["address"]),
            ("1: 2 [1: 2] @ 0x1z", ["address"]),
            ("1: 2 [1: 2] @ 0x11112222333344445", ["address"]),
            ("#@ tag=x", ["label"]),
            ("#class size", ["label"]),
            ("#class size=64 bytes=-1", ["label"]),
            ("#pin x 1", ["stack"]),
            ("#pin 1", ["pins"]),
            ("# freeway-profile 2", ["newer Freeway"]),
        ):
            text = dump_of(SAMPLES[:1]).replace("MAPPED", f"{line}\nMAPPED")
            self.refused(text, "line 6", *words)

    def test_numbers_beyond_what_fits_are_refused(self) -> None:
        for number in (1 << 63, 1 << 64, 10**300):
            self.refused(dump_of([]).replace("MAPPED", f"1: {number} [1: 2] @ 0x1\nMAPPED"), "line 4", "2^63")

    def test_largest_numbers_do_not_overflow(self) -> None:
        most = (1 << 63) - 1
        dump = dump_of([], interval=most).replace(
            "MAPPED", f"{most}: {most} [{most}: {most}] @ 0xffffffffffffffff\nMAPPED"
        )
        for totals in (
            self.proto(self.file("dump", dump)).totals,
            self.proto(self.file("d", dump), "--base", self.file("d", dump)).totals,
        ):
            self.assertTrue(all(abs(value) < 1 << 63 for value in totals), totals)
        self.assertEqual(len(self.collapsed(self.file("dump", dump))), 1)
        self.profile("top", self.file("dump", dump))

    def test_superblocks_that_lie_waste_nothing_or_what_they_say(self) -> None:
        most = 1 << 62
        for lie in (
            "",
            "from=9 size=8 bytes=100 live=8",
            "from=0 size=0 superblocks=1 bytes=100 live=1",
            "from=1 size=1000 bytes=100 live=0",
            "from=1 size=1000 bytes=100 live=200",
            "from=1 size=1 bytes=100 live=50 superblocks=9",
        ):
            dump = self.file("dump", dump_of(WASTED[:2], superblocks=f"#class {lie}\n", pins=PINS))
            self.assertEqual(self.collapsed(dump, "--sample", "waste"), {}, lie)
            self.profile("top", "--sample", "waste", dump)
        largest = f"#class from=0 size={most} superblocks={most} bytes={most} live=1\n"
        for pins in ("", f"#pin 5 {most}\n" * 3, "#pin 5 0\n#pin 9 0\n"):
            dump = self.file("dump", dump_of(WASTED[:2], superblocks=largest, pins=pins))
            self.assertLessEqual(abs(self.proto(dump).totals[4] - most), 4096, pins)
            self.profile("top", "--sample", "waste", dump)

    def test_dump_that_is_cut_off_anywhere_is_warned_of_or_refused(self) -> None:
        whole = LINES.encode()
        samples_end = whole.index(b"MAPPED")
        first_line = whole.index(b"\n") + 1
        for length in range(first_line, samples_end, 7):
            outcome = self.run_profile("top", self.file("dump", whole[:length]))
            self.assertEqual(outcome.returncode, 0, whole[:length])
            self.assertIn(b"ends without MAPPED_LIBRARIES", outcome.stderr)
            self.assertEqual(b"ends in the middle of line" in outcome.stderr, whole[length - 1 : length] != b"\n")

    def test_without_maps_addresses_stay_numbers(self) -> None:
        text = dump_of(SAMPLES[3:]).split("MAPPED")[0]
        self.assertEqual(self.warned(text, "without MAPPED_LIBRARIES").split()[0], "0x405005")

    def test_maps_that_lie_are_left_out(self) -> None:
        for line in ("zz-yy r-xp", "00500000-00400000 r-xp 0 0 0 /x", "1-", "0-ffffffffffffffffff r-xp 0 0 0 /x"):
            self.warned(dump_of(SAMPLES, maps=MAPS + line + "\n"), "1 lines of maps")
        stacks = len(self.collapsed(self.file("dump", dump_of(SAMPLES))))
        # Overlaps, devices, folders, files that are no programs, and one where nothing of it can be.
        odd = "00000000-ffffffffffffffff r-xp 00000000 00:00 0 /dev/zero\n"
        odd += "00401000-00402000 r-xp ffffffffffffffff 0:0 0 /\n"
        for path in ("/etc/passwd", "/proc/self/mem", "/dev/stdin", "/bin/true", "/proc/self/exe"):
            odd += f"00400000-7fffffffffff r-xp 00000000 08:01 1 {path}\n"
            self.assertEqual(len(self.collapsed(self.file("dump", dump_of(SAMPLES, maps=odd)))), stacks, path)

    def test_copies_that_lie_leave_the_line_s_own_addresses(self) -> None:
        expected = self.warned(dump_of(SAMPLES))
        lies = (
            COPY,
            COPY.replace("x86_64", "vax"),
            COPY.replace("pc=0x401005", "pc=0xffffffffffffffff"),
            COPY.replace("sp=0x7fff0000", "sp=0xfffffffffffffff0"),
            COPY.replace("sp=", "so="),
            COPY.replace("0x7fff0000", "zero"),
            COPY.replace("00ff", "0g0f"),
            COPY[:-2] + "\n",
            "#copy+ 00\n#copy\n#copy x\n",
            "",
        )
        maps = MAPS.replace("/no/such/program", "/bin/true")  # a file to unwind with
        for lie in lies:
            labelled = dump_of(SAMPLES, maps=maps).replace("age_ms=3000", "copy=3").replace("MAPPED", lie + "MAPPED")
            out = self.warned(labelled, "1 of 1 stacks could not be unwound")
            self.assertEqual(len(out.splitlines()), len(expected.splitlines()), lie)

    def test_noise_never_crashes(self) -> None:
        print(f"SEED={SEED}")
        dice = random.Random(SEED)
        maps = MAPS.replace("/no/such/program", "/bin/true")
        whole = LINES.replace(MAPS, maps).encode()
        for _ in range(150):
            noisy = bytearray(whole)
            for _ in range(dice.randint(1, 12)):
                place = dice.randrange(len(noisy))
                change = dice.randrange(4)
                if change == 0:
                    noisy[place] = dice.randrange(256)
                elif change == 1:
                    del noisy[place : place + dice.randint(1, 40)]
                elif change == 2:
                    noisy[place:place] = bytes(
                        dice.choice(b"0123456789abcdefx @[]:#=\n-") for _ in range(dice.randint(1, 20))
                    )
                else:
                    other = dice.randrange(len(noisy))
                    noisy[place:place] = noisy[other : other + dice.randint(1, 200)]
            outcome = self.run_profile("convert", "--format", dice.choice(FORMS), self.file("dump", bytes(noisy)))
            self.assertIn(outcome.returncode, (0, BAD_INPUT), (outcome.stderr, bytes(noisy)))
            if outcome.returncode == BAD_INPUT:
                self.assertIn(b"freeway profile: ", outcome.stderr)


if __name__ == "__main__":
    unittest.main()
