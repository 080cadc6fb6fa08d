# SPDX-License-Identifier: MIT
"""Stacks of real processes, which write dumps of themselves ($TRACED, and $TRACED_WITH_COPY without frame pointers)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from dumps import MEASURES, PPROFS_OWN, InAFolder, Sample

# From the innermost on. `inlined` has no frame of its own: only debug information knows it.
CHAIN = ["record", "through_library", "Chain<int>::inner", "inlined", "middle", "outer", "main"]
LIBRARIES = ("libtraced.so", "libtraced_with_copy.so")


class RealProcess(InAFolder):
    def dump(self, variable: str) -> str:
        """The dump that the program writes when it runs in this test's folder, with its library."""
        program = Path(shutil.copy(os.environ[variable], self.folder))
        for name in LIBRARIES:
            shutil.copy(Path(os.environ[variable]).parent / name, self.folder)
        out = subprocess.run([program], env={"LD_LIBRARY_PATH": str(self.folder)}, capture_output=True, check=True)
        return self.file("dump", out.stdout)

    def functions(self, dump: str) -> list[str]:
        """The names of the dump's one stack, the outermost first, without the space that has no name."""
        stacks = self.collapsed(dump)
        self.assertEqual(list(stacks.values()), [round(Sample(4, 10, 1000).estimate()[3])])
        return next(iter(stacks)).replace("(anonymous namespace)::", "").split(";")

    def test_functions_come_out_in_order_by_frame_pointers(self) -> None:
        self.assertEqual(self.functions(self.dump("TRACED"))[-len(CHAIN) :], CHAIN[::-1])

    def test_functions_come_out_in_order_unwound_from_a_copy(self) -> None:
        dump = self.dump("TRACED_WITH_COPY")
        line = re.search(r"^4: .*@(.*)$", Path(dump).read_text(), re.MULTILINE)
        assert line is not None
        self.assertEqual(len(line[1].split()), 1, "the line itself has no more than its first address")
        functions = self.functions(dump)
        self.assertEqual(functions[functions.index("main") :], CHAIN[::-1])

    def test_another_compiler_s_debug_information(self) -> None:
        """clang writes no table of units by address, and has functions' code inside of namespaces."""
        compiler = shutil.which("clang++")
        if compiler is None:
            self.skipTest("there is no clang++")
        sources = [str(Path(__file__).parent / name) for name in ("traced_program.cc", "traced_library.cc")]
        program = self.folder / "traced"
        for version in (4, 5):
            options = ["-O2", "-std=c++20", f"-gdwarf-{version}", "-fomit-frame-pointer", "-DWITH_COPY"]
            subprocess.run([compiler, *options, *sources, "-o", program], check=True)
            out = subprocess.run([program], capture_output=True, check=True)
            functions = self.functions(self.file("dump", out.stdout))
            self.assertEqual(functions[functions.index("main") :], CHAIN[::-1])

    def test_allocator_s_own_frames_in_a_copy_are_left_out(self) -> None:
        dump = Path(self.dump("TRACED_WITH_COPY"))
        # As if `through_library` had called malloc, and the copy had been made deeper inside.
        caller = self.proto(str(dump)).addresses[1] + 1
        dump.write_text(re.sub(r"(\] @) 0x[0-9a-f]+", rf"\1 {caller:#x}", dump.read_text(), count=1))
        functions = self.functions(str(dump))
        self.assertEqual(functions[functions.index("main") :], CHAIN[:0:-1])

    def test_shorter_copies_give_fewer_frames_and_no_wrong_ones(self) -> None:
        dump = Path(self.dump("TRACED_WITH_COPY"))
        whole = self.functions(str(dump))[::-1]
        lines = dump.read_text().splitlines(keepends=True)
        stack = [i for i, line in enumerate(lines) if line.startswith("#copy+")]
        counts = []
        for kept in range(0, len(stack), 3):
            shorter = "".join(line for i, line in enumerate(lines) if i not in stack[kept:])
            outcome = self.run_profile("convert", "--format=collapsed", self.file("shorter", shorter))
            found = outcome.stdout.decode().rsplit(" ", 1)[0].replace("(anonymous namespace)::", "").split(";")[::-1]
            self.assertEqual(found, whole[: len(found)])
            self.assertEqual(len(found) == 1, b"could not be unwound" in outcome.stderr)
            counts.append(len(found))
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[0], 1)
        self.assertGreater(len(set(counts)), 2)

    def test_library_s_own_dump(self) -> None:
        """With an interval of 1 all blocks are sampled, and the numbers are exact."""
        library = {"LD_PRELOAD": os.environ["FREEWAY_LIB"], "FREEWAY_PROFILE": f"1,prefix={self.folder}/leaking"}
        subprocess.run([os.environ["LEAKING"]], env=library, check=True)
        (dump,) = map(str, self.folder.glob("leaking.*.heap"))
        for measure, expected in zip(PPROFS_OWN, (300, 300 * 5000, 200, 200 * 5000), strict=True):
            stacks = self.collapsed(dump, "--sample", measure)
            self.assertEqual([v for stack, v in stacks.items() if stack.endswith("main;leak")], [expected])
            self.assertEqual(sum(stacks.values()), self.proto(dump).totals[MEASURES.index(measure)])
        self.assertRegex(self.profile("top", dump), r"977 KiB +[\d.]+ % +200 .* leak \(leaking_program\.c:\d+\)\n")
        self.assertIn("profile_leaking", self.proto(dump).mappings[0][0])

    def test_missing_library_is_no_error(self) -> None:
        dump = self.dump("TRACED")
        (self.folder / "libtraced.so").unlink()
        functions = self.functions(dump)
        self.assertEqual(functions[-1], "record")
        self.assertRegex(functions[-2], r"^libtraced\.so\+0x[0-9a-f]+$")

    def test_program_without_symbols_is_no_error(self) -> None:
        dump = self.dump("TRACED")
        subprocess.run(["strip", self.folder / Path(os.environ["TRACED"]).name], check=True)
        functions = self.functions(dump)
        self.assertRegex(functions[-1], r"^profile_traced\+0x[0-9a-f]+$")
        self.assertEqual(functions[-2], "through_library")

    def test_profile_has_lines_and_build_ids(self) -> None:
        dump = self.dump("TRACED")
        proto = self.proto(dump)
        notes = subprocess.run(
            ["readelf", "-n", os.environ["TRACED"]], capture_output=True, text=True, check=True
        ).stdout
        build_id = re.search(r"Build ID: (\w+)", notes)
        if build_id is not None:
            self.assertEqual(proto.mappings[0][1], build_id[1])
        source = (Path(__file__).parent / "traced_program.cc").read_text().splitlines()
        line = 1 + next(i for i, text in enumerate(source) if "= middle(depth)" in text)
        self.assertIn(f"outer (traced_program.cc:{line})", self.profile("top", dump))


if __name__ == "__main__":
    unittest.main()
