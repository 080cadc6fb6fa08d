# SPDX-License-Identifier: MIT
"""Each form of a dump that was written by hand says what the formula says."""

from __future__ import annotations

import os
import re
import unittest
from pathlib import Path

from dumps import (
    ABOUT,
    BAD_INPUT,
    INTERVAL,
    MAPS,
    MEASURES,
    SAMPLES,
    WRONG_USAGE,
    InAFolder,
    Sample,
    dump_of,
    near,
    total,
)


class Estimates(InAFolder):
    def test_profile_has_the_formula_s_totals_for_any_interval(self) -> None:
        for interval in (0, 1, 64, INTERVAL, 1 << 40):
            proto = self.proto(self.file("dump", dump_of(SAMPLES, interval)))
            for got, expected in zip(proto.totals, total(SAMPLES, interval), strict=True):
                self.assertAlmostEqual(got, expected, delta=near(expected, SAMPLES), msg=f"interval {interval}")

    def test_each_line_is_unsampled_by_its_own_block_size(self) -> None:
        values = self.proto(self.file("dump", dump_of(SAMPLES))).values
        self.assertEqual(values, [[round(value) for value in sample.estimate()] for sample in SAMPLES])
        # By the mean size of both lines of that stack it would be less than half as many blocks.
        self.assertGreater(values[1][2], 8000)

    def test_collapsed_stacks_begin_at_the_outermost_and_add_up_for_each_measure(self) -> None:
        dump = self.file("dump", dump_of(SAMPLES))
        for index, measure in enumerate(MEASURES):
            stacks = self.collapsed(dump, "--sample", measure)
            expected = {
                "program+0x3005;program+0x2005;program+0x1005": SAMPLES[0].estimate()[index]
                + SAMPLES[1].estimate()[index],
                "program+0x3005;program+0x4005": SAMPLES[2].estimate()[index],
                "program+0x5005": SAMPLES[3].estimate()[index],
            }
            self.assertEqual(stacks, {stack: round(value) for stack, value in expected.items() if value})

    def test_sum_over_many_lines_is_unbiased_beside_a_list_of_all_blocks(self) -> None:
        # One line for each of many sizes, sampled with the probability that the library samples with.
        samples = [
            Sample(0, round(10**7 * (1 - 2.718281828459045 ** (-size / INTERVAL))), size) for size in (16, 5000, 10**6)
        ]
        self.assertAlmostEqual(self.proto(self.file("dump", dump_of(samples))).totals[0], 3 * 10**7, delta=3 * 10**5)


class Proto(InAFolder):
    def test_types_period_time_and_comments(self) -> None:
        proto = self.proto(self.file("dump", dump_of(SAMPLES)))
        units = ["count", "bytes", "count", "bytes", "bytes"]
        self.assertEqual(proto.sample_types, list(zip(MEASURES, units, strict=True)))
        self.assertEqual(proto.strings[proto.number(14)], "inuse_space")
        self.assertEqual((proto.number(12), proto.number(9)), (INTERVAL, 1700000000000000000))
        self.assertEqual(proto.strings[0], "")
        for comment in ("pid=321", "lost_stacks=0", "mode=rseq", "program=/no/such/program"):
            self.assertIn(comment, proto.comments)

    def test_labels(self) -> None:
        labels = self.proto(self.file("dump", dump_of(SAMPLES))).labels
        ms = "milliseconds"
        self.assertEqual(labels[0], {"bytes": (1000, "bytes"), "tag": (7, ""), "age": (1500, ms), "lifetime": (20, ms)})
        self.assertEqual(labels[3], {"bytes": (3 << 20, "bytes"), "tag": (7, "")})

    def test_addresses_are_within_the_calls_and_the_program_is_the_first_mapping(self) -> None:
        maps = "00200000-00300000 r-xp 00000000 08:01 9 /lib/first.so\n" + MAPS
        proto = self.proto(self.file("dump", dump_of(SAMPLES, maps=maps)))
        self.assertEqual(proto.stacks[0], ["0x401004", "0x402004", "0x403004"])
        self.assertEqual([name for name, _ in proto.mappings], ["/no/such/program", "/lib/first.so"])

    def test_base_is_subtracted(self) -> None:
        dump, base = self.file("dump", dump_of(SAMPLES)), self.file("base", dump_of(SAMPLES[:2]))
        expected = [a - b for a, b in zip(total(SAMPLES), total(SAMPLES[:2]), strict=True)]
        for got, value in zip(self.proto(dump, "--base", base).totals, expected, strict=True):
            self.assertAlmostEqual(got, value, delta=6)

    def test_names_that_are_no_text_become_text(self) -> None:
        maps = b"00400000-00500000 r-xp 00000000 08:01 9 /lib/\xff\xfe\xc3\n"
        dump = dump_of(SAMPLES, maps="").encode() + maps
        self.assertEqual(self.proto(self.file("dump", dump)).mappings[0][0], "/lib/???")


class Text(InAFolder):
    def test_largest_stack_is_first_with_its_blocks_and_age(self) -> None:
        text = self.profile("top", self.file("dump", dump_of(SAMPLES)))
        rows = re.findall(r"^ +(\S+ \S+) +(\S+ \S+) +(\S+) %  .*program\+(\w+)$", text, re.MULTILINE)
        self.assertEqual([row[3] for row in rows], ["0x5005", "0x1005"])
        self.assertEqual(rows[0][0], "6.01 MiB")  # 2 * 3 MiB / (1 - exp(-6))
        self.assertIn("process 321, 2023-11-14 22:13:20 UTC", text)
        # Weighted by what the samples stand for: 2099 blocks of 1.5 s, 8192 of 3 s.
        self.assertRegex(text, r"10,2\d\d +2\.69 s +program\+0x1005\n")

    def test_number_of_stacks_is_asked_for(self) -> None:
        text = self.profile("top", "-n", "1", self.file("dump", dump_of(SAMPLES)))
        self.assertIn("program+0x5005", text)
        self.assertNotIn("program+0x1005", text)
        self.assertIn("and 1 smaller ones", text)

    def test_functions_come_before_their_callers_from_the_bottom_up(self) -> None:
        samples = [
            Sample(40, 100, 1000, [0x401005, 0x402005, 0x403005]),
            Sample(30, 60, 1000, [0x401005, 0x404005, 0x403005]),
            Sample(10, 10, 1000, [0x401005, 0x402005, 0x405005]),
            Sample(9, 9, 3000, [0x406005, 0x407005, 0x403005]),
            Sample(1, 1, 50, [0x401005, 0x40A005]),
            Sample(2, 2, 1000, []),
        ]
        dump = self.file("dump", dump_of(samples, interval=1))
        lines = self.profile("top", "--bottom-up", dump).splitlines()[5:]
        where = lines[0].index("where")
        self.assertEqual(
            [(line[:where].strip().partition("  ")[0], line[where:]) for line in lines[1:]],
            [
                ("78.2 KiB", "program+0x1005"),
                ("48.8 KiB", "  ← program+0x2005"),
                ("39.1 KiB", "    ← program+0x3005"),
                ("9.77 KiB", "    ← program+0x5005"),
                ("29.3 KiB", "  ← program+0x4005"),
                ("", "  ← program+0x3005"),
                ("50 B", "  ← 1 smaller caller"),
                ("26.4 KiB", "program+0x6005"),
                ("", "  ← program+0x7005"),
                ("", "  ← program+0x3005"),
                ("1.95 KiB", "(no stack)"),
            ],
        )
        self.assertIn("and 2 smaller ones", self.profile("top", "--bottom-up", "-n", "1", dump))
        # What a function has now is all that it has, whatever has changed.
        base = self.file("base", dump_of(samples[1:], interval=1))
        text = self.profile("diff", "--bottom-up", base, dump)
        self.assertRegex(text, r"\n +\+39\.1 KiB +0 B +78\.2 KiB +\+40 +program\+0x1005\n")
        self.assertEqual(text.count("+39.1 KiB"), 3)

    def test_what_was_lost_is_said(self) -> None:
        dump = self.file("dump", dump_of(SAMPLES, about="lost_stacks=12 lost_blocks=0"))
        self.assertIn("not counted: 12 samples whose stacks found no room", self.profile("top", dump))

    def test_control_characters_do_not_reach_the_terminal(self) -> None:
        dump = dump_of(SAMPLES, maps=MAPS.replace("/no/such/program", "/no/\x1b[31mred"), about="program=/a\x1b[2Jb")
        text = self.profile("top", self.file("dump", dump))
        self.assertIn("?[31mred+0x1005", text)
        self.assertNotIn("\x1b", text)


class Difference(InAFolder):
    """Stacks are compared by what they are called, not by where they were mapped."""

    def test_growth_and_shrinking_are_named_with_their_sign(self) -> None:
        before = self.file("a", dump_of([Sample(4, 4, 1000, [0x401005]), Sample(9, 9, 1000, [0x402005])]))
        after = self.file("b", dump_of([Sample(8, 9, 1000, [0x401005]), Sample(1, 9, 1000, [0x402005])]))
        change = Sample(4, 4, 1000).estimate()[3]
        self.assertEqual(
            self.collapsed(after, "--base", before),
            {"program+0x1005": round(change), "program+0x2005": -round(2 * change)},
        )
        text = self.profile("diff", before, after)
        self.assertRegex(text, r"\n +-4\.00 MiB .*program\+0x2005\n +\+2\.00 MiB .*program\+0x1005\n")

    def test_same_code_elsewhere_is_the_same_stack(self) -> None:
        before = self.file("a", dump_of([Sample(4, 4, 1000, [0x401005])]))
        moved = MAPS.replace("004", "7f4").replace("005", "7f5")
        after = self.file("b", dump_of([Sample(4, 5, 1000, [0x7F401005])], maps=moved))
        self.assertEqual(self.collapsed(after, "--base", before), {})
        self.assertIn("nothing has changed", self.profile("diff", before, after))


class MadeAtRunTime(InAFolder):
    def test_names_are_those_of_the_perf_map(self) -> None:
        """Node, Java and Python (-X perf) write them, by the process's number; this one's is free meanwhile."""
        file = Path(f"/tmp/perf-{os.getpid()}.map")
        file.write_text("not a line\n7f0000001000 80 old\n7f0000001000 80 py::handle:/app.py\n7f0000002000 10 other\n")
        self.addCleanup(file.unlink)
        stacks = [Sample(4, 4, 1000, [0x7F0000001010, 0x401005]), Sample(4, 4, 1000, [0x7F0000001100])]
        dump = self.file("dump", dump_of(stacks, about=ABOUT.replace("pid=321", f"pid={os.getpid()}")))
        self.assertEqual(set(self.collapsed(dump)), {"program+0x1005;py::handle:/app.py", "0x7f0000001100"})


class Empty(InAFolder):
    def test_is_valid_in_every_form(self) -> None:
        for maps in ("", MAPS):
            dump = self.file("dump", dump_of([], maps=maps))
            self.assertIn("nothing was sampled", self.profile("top", dump))
            self.assertEqual(self.collapsed(dump), {})
            self.assertEqual(self.proto(dump).totals, [0] * len(MEASURES))
            self.assertEqual(len(self.proto(dump).sample_types), len(MEASURES))
            self.assertIn("nothing has changed", self.profile("diff", dump, dump))
            self.assertIn("</html>", self.profile("convert", "--format=html", dump))


class Page(InAFolder):
    def page(self, *arguments: str) -> str:
        return self.profile("convert", "--format", "html", *arguments)

    def test_names_cannot_become_part_of_the_page(self) -> None:
        evil = "</script ><script>alert(1)<!--&quot;\\\"'"
        dump = dump_of(SAMPLES, maps=MAPS.replace("/no/such/program", f"/no/{evil}"), about=f"program=/x/{evil}")
        page = self.page(self.file("dump", dump))
        # In the page there are two scripts of its own, and the name only as a string of JSON.
        marks = [page.count(mark) for mark in ("<script", "</script", "<!--", "script>alert(1)", "u003ealert(1)")]
        self.assertEqual(marks[:4], [2, 2, 0, 0])
        self.assertGreater(marks[4], 0)

    def test_needs_nothing_from_the_network(self) -> None:
        page = self.page(self.file("dump", dump_of(SAMPLES)))
        self.assertIsNone(re.search(r"https?:|\bsrc=|@import|url\(", page))
        self.assertEqual(page.count("default-src 'none'"), 1)


class Usage(InAFolder):
    def test_form_follows_the_file_s_name(self) -> None:
        dump = self.file("dump", dump_of(SAMPLES))
        for name, begin in (
            ("a.pb.gz", b"\x1f\x8b"),
            ("a.html", b"<!DOCTYPE"),
            ("a.collapsed", b"prog"),
            ("a.txt", b"heap"),
        ):
            self.profile("convert", dump, "-o", str(self.folder / name))
            self.assertTrue((self.folder / name).read_bytes().startswith(begin), name)

    def test_dump_may_come_from_the_standard_input(self) -> None:
        outcome = self.run_profile("top", "-", stdin=dump_of(SAMPLES).encode())
        self.assertIn(b"program+0x5005", outcome.stdout)

    def test_what_is_not_understood_is_named(self) -> None:
        dump = self.file("dump", dump_of(SAMPLES))
        for arguments in (
            ["fly"],
            ["top", dump, "--fly"],
            ["convert", dump, "--format=fly"],
            ["top", dump, "--sample", "fly"],
            ["top", dump, "-n", "fly"],
        ):
            outcome = self.run_profile(*arguments)
            self.assertEqual(outcome.returncode, WRONG_USAGE, arguments)
            self.assertIn(b"fly", outcome.stderr)
        outcome = self.run_profile("top", dump, "--sample=alloc_spce")
        self.assertIn(b"there is no alloc_spce: did you mean alloc_space?", outcome.stderr)
        for arguments in ([], ["top"], ["diff", dump], ["convert", dump, dump], ["top", dump, "--base"]):
            self.assertEqual(self.run_profile(*arguments).returncode, WRONG_USAGE, arguments)

    def test_form_that_no_name_says_is_refused(self) -> None:
        dump = self.file("dump", dump_of(SAMPLES))
        for name in ("page.htm", "page.svg", "page"):
            outcome = self.run_profile("convert", dump, "-o", name)
            self.assertEqual((outcome.returncode, outcome.stdout), (WRONG_USAGE, b""))
            self.assertIn(b".pb.gz", outcome.stderr)
            self.assertFalse(Path(name).exists())
        self.assertEqual(self.run_profile("convert", dump).returncode, WRONG_USAGE)

    def test_files_that_cannot_be_read_or_written_are_named(self) -> None:
        dump = self.file("dump", dump_of(SAMPLES))
        for arguments, name in (
            (["top", "/no/dump"], "/no/dump"),
            (["convert", dump, "--format=html", "-o", "/no/out"], "/no/out"),
        ):
            outcome = self.run_profile(*arguments)
            self.assertEqual(outcome.returncode, BAD_INPUT)
            self.assertIn(name, outcome.stderr.decode())
        outcome = self.run_profile("convert", dump, "--format=text", "-o", "/dev/full")
        self.assertEqual(outcome.returncode, BAD_INPUT)
        self.assertIn(b"No space left", outcome.stderr)


if __name__ == "__main__":
    unittest.main()
