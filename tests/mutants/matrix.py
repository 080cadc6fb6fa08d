#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which tests kill which planted fault: matrix.json, a row a fault, and what refreshes it.

    tests/mutants/matrix.py --build build/release             runs the rows whose files have changed
    tests/mutants/matrix.py --build build/release --all       runs all of them: a night on 2 CPUs
    tests/mutants/matrix.py --build build/release pages:      those whose name begins so
    tests/mutants/matrix.py --check                           whether each fault has a killer (part of make lint)
    tests/mutants/matrix.py --show [TEST]                     what kills what; what TEST kills, and kills alone

Faults of models (tests/*/faults.diff and its like) are tried with the models and unit tests of their room; those of
planted.py in the compiled library, with the test that is named there and with the cheap ones of CHEAP. A row names each
test that failed, with seconds, and the tests that passed. What is not in a row was not tried.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from mutants import SKIPPED, Copy, Killer, short
from plant import SOURCE, all_faults, faults_of, header
from planted import CLAIMING, MUTANTS, OWNING, Mutant

TABLE = Path(__file__).resolve().parent / "matrix.json"
TIME_LIMIT_S = 30  # of the unit tests of a source beside a fault: they may hang
RSEQ = ("FREEWAY_RSEQ=1",)
CHEAP = tuple(
    Killer(program, (), environment)
    for program in (
        "tests/abi/abi_functions",
        "tests/abi/abi_extension",
        "tests/whole/differential/differential_one_thread",
    )
    for environment in (RSEQ, OWNING, CLAIMING)
)


@dataclass(frozen=True)
class ModelFault:
    """A fault of faults.diff, which acts where it is asked for by name."""

    file: Path
    name: str
    headers: tuple[Path, ...]

    @property
    def row(self) -> str:
        return f"{room_of(self.file)}: {self.name}"


def room_of(faults: Path) -> str:
    """tests/pages/faults.diff: pages; papers/nbbs/tests/faults.diff: nbbs; shared/tests/faults.diff: shared."""
    folder = faults.parent
    return folder.parent.name if folder.name == "tests" else folder.name


def model_faults() -> Iterator[ModelFault]:
    for file in all_faults():
        found: dict[str, list[Path]] = {}
        for place, names in faults_of(file).items():
            for name in names:
                found.setdefault(name, []).append(header(place, SOURCE))
        for name, headers in found.items():
            yield ModelFault(file, name, tuple(dict.fromkeys(headers)))


def fingerprint(files: Iterable[Path], *words: str) -> str:
    """Of the files' contents, but for comments, white space and names of headers: a row is as new as these."""
    digest = hashlib.sha256("\0".join(words).encode())
    for file in sorted(set(files)):
        digest.update(re.sub(r"^#include.*|//[^\n]*|\s", "", file.read_text(), flags=re.MULTILINE).encode())
    return digest.hexdigest()[:12]


def sources_of(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix in {".cc", ".h"}]


def print_of(fault: ModelFault | Mutant) -> str:
    if isinstance(fault, ModelFault):
        return fingerprint([*fault.headers, fault.file, *sources_of(fault.file.parent)], fault.name)
    folder = fault.killer.folder(SOURCE)
    return fingerprint([fault.path(SOURCE), *sources_of(folder)], fault.text, fault.replacement, short(fault.killer))


# --- Faults of models. ------------------------------------------------------------------------------------------------


def output_of(command: list[str | Path], environment: dict[str, str], limit_s: int) -> tuple[int, str]:
    """Exit status, and all that was printed. A test that hangs has failed."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            status = subprocess.run(
                command, env=os.environ | environment, stdout=output, stderr=subprocess.STDOUT, check=False,
                timeout=limit_s,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            status = -1
        output.seek(0)
        return status, output.read()


def build_place(build: Path, folder: Path) -> Path:
    """Where programs of a folder of tests are built: those of papers/ and shared/ below tests/."""
    parts = [part for part in folder.relative_to(SOURCE).parts if part != "tests"]
    return build.joinpath("tests", *parts)


def tests_with(text: str, words: str) -> list[str]:
    """The tests of a source in whose bodies the words are."""
    found = re.findall(r"^TEST\((\w+), (\w+)\)(.*?)(?=^TEST|\Z)", text, re.M | re.S)
    return [f"{suite}.{test}" for suite, test, body in found if words in body]


class Models:
    """What the models catch, each of whose programs is run once."""

    def __init__(self, build: Path) -> None:
        self.build = build
        self.seconds: dict[str, float] = {}  # of tests that plant faults
        self.by_program: dict[Path, dict[str, dict[str, float]]] = {}
        # header:fault of those that the simulator must find within so many seeds
        lists = (SOURCE / f"tests/whole/simulator/faults_{which}.txt" for which in ("quick", "long"))
        self.simulated = {line.split(" ", 1)[1]: path.stem for path in lists for line in path.read_text().splitlines()}
        self.texts = {path: path.read_text() for path in SOURCE.glob("**/*_model.cc") if "build" not in path.parts}

    def killers(self, name: str, folder: Path, headers: Iterable[Path]) -> dict[str, float]:
        """Of the models of its room, of others in whose sources it is named, and the simulator."""
        killers: dict[str, float] = {}
        for header_of in headers:
            key = f"{header_of.parent.name}/{header_of.name}:{name}"
            if key in self.simulated:
                killers["simulator_faults"] = 1.0 if self.simulated[key] == "faults_quick" else 10.0
        for source, text in self.texts.items():
            if source.parent == folder or f'"{name}"' in text:
                place = build_place(self.build, source.parent)
                killers |= self.caught(place / f"{place.name}_models").get(name, {})
                for test in tests_with(text, f'"{name}"'):  # which may print it by another name
                    killers |= {test: self.seconds[test]} if test in self.seconds else {}
        # An Env of a test of its own, in which the fault acts: the test behind it must fail without the mending.
        for source in folder.glob("*_test.cc"):
            for suite, test in re.findall(rf'== "{name}";.*?^TEST\((\w+), (\w+)\)', source.read_text(), re.M | re.S):
                killers[f"{suite}.{test}"] = 1.0
        return killers

    def with_faults(self, program: Path) -> Iterator[str]:
        """The program's tests that plant faults."""
        for source, text in self.texts.items():
            if build_place(self.build, source.parent) == program.parent:
                yield from tests_with(text, "caught(")
                yield from tests_with(text, "mutant")

    def caught(self, program: Path) -> dict[str, dict[str, float]]:
        """For each fault the tests that found it, and the seconds of such a test, for all its faults together."""
        if program in self.by_program:
            return self.by_program[program]
        build_targets(self.build, [program.name])
        filters = ":".join(self.with_faults(program))
        arguments = [program, f"--gtest_filter={filters}", "--gtest_also_run_disabled_tests"]
        status, text = output_of(arguments, {"FREEWAY_BUILD_DIR": str(self.build)}, 1800)
        if status != 0:
            raise RuntimeError(f"{program.name} fails:\n{text[-3000:]}")
        caught: dict[str, dict[str, float]] = {}
        names: list[str] = []
        for line in text.splitlines():
            if found := re.match(r"  caught: (.{60,}?) by ", line):
                names.append(found[1].rstrip())
            if found := re.match(r"\[       OK \] (\S+) \((\d+) ms\)", line):
                self.seconds[found[1]] = int(found[2]) / 1000
                for name in names:
                    caught.setdefault(name, {})[found[1]] = int(found[2]) / 1000
                names = []
        self.by_program[program] = caught
        return caught


class Room:
    """The unit tests of a room, with the faults in the headers."""

    def __init__(self, build: Path, faults: Path, models: Models, quick: bool) -> None:
        room = room_of(faults)
        self.models, self.place = models, build_place(build, faults.parent)
        stopped = "shared_stores_stopped" if room == "shared" else f"{room}_stopped"
        self.units = [f"{name}_planted" for name in (f"unit_{room}", stopped) if is_target(build, f"{name}_planted")]
        if quick:
            self.units = []
        build_targets(build, self.units)
        self.stems = {unit: stems_of(build, unit) for unit in self.units}

    def row(self, fault: ModelFault) -> dict[str, object]:
        killers = self.models.killers(fault.name, fault.file.parent, fault.headers)
        passed = []
        for unit in self.units:
            for stem in self.stems[unit]:
                begin = time.monotonic()
                status, text = output_of(
                    [self.place / unit, stem], {"FREEWAY_FAULT": fault.name, "FREEWAY_TEST_SEED": "1"}, TIME_LIMIT_S
                )
                seconds = round(time.monotonic() - begin, 2)
                failed = set(re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", text, re.MULTILINE))
                if status != 0 and not failed:  # it crashed or hangs: in the last test that began
                    failed = set(re.findall(r"^\[ RUN      \] (\S+)", text, re.MULTILINE)[-1:])
                for test in failed:
                    killers[test] = seconds
                if not failed:
                    passed.append(stem)
        return {"killers": dict(sorted(killers.items(), key=lambda each: (each[1], each[0]))), "passed": passed}


def build_targets(build: Path, names: list[str]) -> None:
    if names:
        subprocess.run(["cmake", "--build", build, "--target", *names], check=True, stdout=subprocess.DEVNULL)


def is_target(build: Path, name: str) -> bool:
    return any(line.startswith(f"build {name}: phony") for line in ninja_lines(build))


@functools.cache
def ninja_lines(build: Path) -> list[str]:
    return (build / "build.ninja").read_text().splitlines()


def stems_of(build: Path, program: str) -> list[str]:
    """The sources with tests."""
    found = [re.findall(rf"/{program}\.dir/(?:\S*/)?(\w+_test)\.cc\.o", line) for line in ninja_lines(build)]
    return sorted({stem for each in found for stem in each})


# --- Faults of the compiled library. ----------------------------------------------------------------------------------


def library_rows(build: Path, wanted: list[Mutant]) -> Iterator[tuple[Mutant, dict[str, object]]]:
    with tempfile.TemporaryDirectory(prefix="matrix-", dir=build, ignore_cleanup_errors=True) as root:
        copy = Copy(Path(root) / "copy")
        for mutant in wanted:
            killers: dict[str, float] = {}
            passed = []
            with copy.planted(mutant):
                killers_to_try = [mutant.killer, *(() if mutant.killer.has_the_sources else CHEAP)]
                copy.build(killers_to_try)
                for killer in killers_to_try:
                    begin = time.monotonic()
                    status, _ = copy.run(killer, build, mutant.seconds)
                    if status in (0, SKIPPED):
                        passed.append(short(killer))
                    else:
                        killers[short(killer)] = round(time.monotonic() - begin, 1)
            yield mutant, {"killers": dict(sorted(killers.items(), key=lambda each: each[1])), "passed": passed}


# --- The table. -------------------------------------------------------------------------------------------------------


def read_table() -> dict[str, dict[str, object]]:
    return json.loads(TABLE.read_text()) if TABLE.exists() else {}


def write_table(table: dict[str, dict[str, object]]) -> None:
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table))
    TABLE.write_text("{\n" + rows + "\n}\n")


def all_prints() -> dict[str, str]:
    prints = {fault.row: print_of(fault) for fault in model_faults()}
    return prints | {f"library: {mutant.name}": print_of(mutant) for mutant in MUTANTS}


def show(test: str) -> None:
    for name, row in read_table().items():
        killers = row["killers"]
        assert isinstance(killers, dict)
        if not test:
            print(f"{name}: {', '.join(f'{each} ({seconds} s)' for each, seconds in killers.items()) or 'NONE'}")
        elif test in killers:
            print(f"{name}{' (alone)' if len(killers) == 1 else ''}")


def tests_there_are() -> set[str]:
    """Suite.Test of each, and the programs that CMake knows."""
    found = set()
    for path in SOURCE.glob("**/tests/**/*.cc"):
        found |= {
            ".".join(each) for each in re.findall(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", path.read_text(), re.MULTILINE)
        }
    for path in SOURCE.glob("**/tests/**/CMakeLists.txt"):
        adding = r"(?:freeway_(?:add_(?:scenario_test|test|room)|register_test)|add_executable)\((\w+)"
        found |= set(re.findall(adding, path.read_text()))
    return found


def name_of(killer: str) -> str:
    """Without parameters: Spaces/BirthsTest.AllOfIt/Reserved is BirthsTest.AllOfIt; of a program its name."""
    if "." not in killer.split(" ", 1)[0]:
        return killer.split(" ", 1)[0]
    suite, test = killer.split(".", 1)
    return f"{suite.split('/')[-1]}.{test.split('/')[0]}"


def check() -> int:
    """Complains of faults that no test is known to kill any more."""
    table, known = read_table(), tests_there_are()
    wrong = []
    for name in all_prints():
        killers = table.get(name, {}).get("killers", {})
        assert isinstance(killers, dict)
        if name not in table and not name.startswith("library: "):  # whose killers mutants.py --check looks for
            wrong.append(f"{name}: not tried yet (tests/mutants/matrix.py --build build/release)")
        elif name in table and not any(name_of(killer) in known for killer in killers):
            wrong.append(f"{name}: lost its killers: {', '.join(killers) or 'there were none'}")
    gone = table.keys() - all_prints().keys()
    wrong += [f"{name}: no such fault (tests/mutants/matrix.py takes its row out)" for name in gone]
    for line in wrong:
        print(line)
    print(f"{len(table)} faults in the matrix, {len(wrong)} complaints")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("begins", nargs="*")
    parser.add_argument("--build", type=Path, default=os.environ.get("FREEWAY_BUILD_DIR"))
    parser.add_argument("--all", action="store_true")
    parser.add_argument(
        "--quick", action="store_true", help="models alone, and nothing that needs a library of its own"
    )
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check()
    if options.show:
        show(" ".join(options.begins))
        return 0
    if options.build is None:
        parser.error("which build folder?")
    build, table, prints = options.build.resolve(), read_table(), all_prints()
    table = {name: row for name, row in table.items() if name in prints}

    def is_due(name: str) -> bool:
        if options.begins:
            return any(name.startswith(each) for each in options.begins)
        return options.all or table.get(name, {}).get("print") != prints[name]

    def keep(name: str, row: dict[str, object]) -> None:
        table[name] = row | {"print": prints[name]}
        write_table(table)
        print(f"{name}: {len(row['killers'])} killers", flush=True)  # type: ignore[arg-type]

    by_file: dict[Path, list[ModelFault]] = {}
    for fault in model_faults():
        if is_due(fault.row):
            by_file.setdefault(fault.file, []).append(fault)
    models = Models(build)
    for file, faults in by_file.items():
        room = Room(build, file, models, options.quick)
        for fault in faults:
            keep(fault.row, room.row(fault))
    due = [mutant for mutant in MUTANTS if is_due(f"library: {mutant.name}") and not options.quick]
    for mutant, row in library_rows(build, due):
        keep(f"library: {mutant.name}", row)
    write_table(table)
    without = [name for name, row in table.items() if not row["killers"]]
    for name in without:
        print(f"no killer: {name}", file=sys.stderr)
    return 1 if without else 0


if __name__ == "__main__":
    sys.exit(main())
