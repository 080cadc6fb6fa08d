# SPDX-License-Identifier: MIT
"""Plants faults in a copy of the library, one at a time, and requires that the test which is to find each fails.

    mutants.py --check              the faults' texts are in the sources, once each, and their tests exist
    mutants.py [--build DIR] [NAME ...]   builds and tries all faults, or those whose names contain a NAME

The tests are those of the build folder (default $FREEWAY_BUILD_DIR, which ctest sets); they load a mutant by
LD_LIBRARY_PATH. First each of them must pass with the copy as it is (--hasty leaves that out). What was tried goes to
$FREEWAY_PROOF_FILE, as tests/support/proof.h has it.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from planted import FIRST_CALL, MUTANTS, Killer, Mutant
from proof import proof

SOURCE = Path(__file__).resolve().parents[2]
SKIPPED = 77  # exit status of a test that cannot run here
FIRST_CALL_PROGRAM = "tests/whole/signal/first_call_program.cc"


def check() -> int:
    """Complains of faults whose text is not where it was."""
    wrong = 0
    for mutant in MUTANTS:
        count = mutant.path(SOURCE).read_text().count(mutant.text)
        if count != 1:
            print(f"{mutant.name}: its text is {count} times in {mutant.file}, not once")
            wrong += 1
        program = Path(mutant.killer.program)
        tests = (mutant.killer.folder(SOURCE) / "CMakeLists.txt").read_text()
        if not re.search(
            rf"(freeway_(add_(scenario_test|test|room)|register_test)|add_executable)\({program.name}\b", tests
        ):
            print(f"{mutant.name}: no test {mutant.killer.program}")
            wrong += 1
    names = [mutant.name for mutant in MUTANTS]
    if len(set(names)) != len(names):
        print("two faults have the same name")
        wrong += 1
    print(f"{len(MUTANTS)} planted faults, {wrong} complaints")
    return 1 if wrong else 0


class Copy:
    """A copy of the repository, and what is built of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tracked = subprocess.run(("git", "ls-files", "-z"), cwd=SOURCE, capture_output=True, text=True, check=True)
        for name in tracked.stdout.split("\0")[:-1]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, folder / name, follow_symlinks=False)
        self.build_folder = folder / "build"

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        path = mutant.path(self.folder)
        text = path.read_text()
        if text.count(mutant.text) != 1:
            raise RuntimeError(f"{mutant.file} has changed: {mutant.name}")
        path.write_text(text.replace(mutant.text, mutant.replacement))
        try:
            yield
        finally:
            path.write_text(text)  # with a new time, so that what depends on it is built anew

    def build(self, killers: Iterable[Killer]) -> None:
        """What these tests run of the copy."""

        def run(*command: str | Path) -> None:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")

        if not (self.build_folder / "CMakeCache.txt").exists():
            # Optimised as the product is; without debug information, which takes most of the time.
            flags = [f"-DCMAKE_{language}_FLAGS_RELEASE=-O2" for language in ("C", "CXX", "ASM")]
            flags += [f"-DFREEWAY_{part}=OFF" for part in ("BUILD_COMMAND", "INSTALL")]
            run("cmake", "-S", self.folder, "-B", self.build_folder, "-G", "Ninja", *flags)
        killers = set(killers)
        targets = {target for killer in killers for target in killer.targets}
        run("cmake", "--build", self.build_folder, "-j", "2", "--target", *sorted(targets))
        if FIRST_CALL in killers:
            options = ["-std=c++20", "-O2", "-fPIE", "-fno-exceptions", "-fno-rtti"]
            options += ["-fno-builtin-malloc", "-fno-builtin-free"]
            includes = ("-I", SOURCE, "-I", SOURCE / "include")
            unit = self.build_folder / "first_call_program.o"
            run(os.environ.get("CXX", "c++"), *options, *includes, "-c", SOURCE / FIRST_CALL_PROGRAM, "-o", unit)
            library = self.build_folder / "libfreeway.a"
            run(os.environ.get("CC", "cc"), "-pie", unit, library, "-o", self.first_call_program)

    @property
    def first_call_program(self) -> Path:
        return self.build_folder / "first_call_program"

    def run(self, killer: Killer, tests: Path, seconds: float) -> tuple[int, str]:
        """Its exit status with this library, and the end of what it wrote. A test that hangs has failed."""
        environment = dict(os.environ)
        environment.pop("FREEWAY_PROOF_FILE", None)  # what a test counts beside a mutant proves nothing
        environment |= {
            "LD_LIBRARY_PATH": str(self.build_folder / ("stepping/freeway" if killer.is_told_of_steps else "")),
            "FREEWAY_LIB": str(self.build_folder / "libfreeway.so.0"),
            "FREEWAY_FIRST_CALL_PROGRAM": str(self.first_call_program),
            "FREEWAY_TEST_SEED": os.environ.get("FREEWAY_TEST_SEED", "1"),
        }
        environment |= dict(pair.split("=", 1) for pair in killer.environment)
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [(self.build_folder if killer.has_the_sources else tests) / killer.program, *killer.arguments],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.build_folder,
                start_new_session=True,
            )
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                status = -1
                output.write(f"\nno end within {seconds} s")
            kill_group(process.pid)
            process.wait()
            output.seek(0)
            return status, output.read()


def kill_group(leader: int) -> None:
    """Children that a failed test has left behind."""
    try:
        os.killpg(leader, 9)
    except ProcessLookupError:
        return


def reason(output: str) -> str:
    """The line that says what a test has found."""
    for mark in ("FAILED:", "audit:", "FAILED  ]", "freeway:", "crash:", "no end within", "hang:", "FAILED", "seed "):
        for line in output.splitlines():
            if mark in line:
                return line.strip()[:150]
    return "no word"


def short(killer: Killer) -> str:
    return " ".join((Path(killer.program).name, *killer.arguments, *killer.environment))


def try_all(tests: Path, wanted: list[Mutant], hasty: bool) -> int:
    """Returns how many survived."""
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=tests, ignore_cleanup_errors=True) as root:
        copy = Copy(Path(root) / "copy")
        if not hasty:
            copy.build(mutant.killer for mutant in wanted)
            for killer in dict.fromkeys(mutant.killer for mutant in wanted):
                status, output = copy.run(killer, tests, 300)
                if status not in (0, SKIPPED):
                    print(output[-3000:])
                    raise RuntimeError(f"{short(killer)} fails without a fault: nothing can be said")
        survivors = 0
        for mutant in wanted:
            start = time.monotonic()
            with copy.planted(mutant):
                copy.build([mutant.killer])
                built = time.monotonic()
                status, output = copy.run(mutant.killer, tests, mutant.seconds)
            seconds = f"{built - start:.0f} + {time.monotonic() - built:.0f} s"
            if status == SKIPPED:
                print(f"skipped   {mutant.name}: {short(mutant.killer)} cannot run here")
            elif status == 0:
                survivors += 1
                print(f"SURVIVED  {mutant.name} ({seconds}): {short(mutant.killer)} passes\n{output[-1500:]}")
            else:
                print(f"killed    {mutant.name} ({seconds}): {reason(output)}")
            sys.stdout.flush()
    return survivors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--hasty", action="store_true")
    parser.add_argument("--build", type=Path, default=os.environ.get("FREEWAY_BUILD_DIR"))
    options = parser.parse_args()
    if options.check:
        return check()
    if options.build is None:
        parser.error("which build folder?")
    here = [mutant for mutant in MUTANTS if mutant.only_on in ("", platform.machine())]
    wanted = [m for m in here if not options.names or any(name in m.name for name in options.names)]
    survivors = try_all(options.build.resolve(), wanted, options.hasty)
    proof("mutants", "faults planted in the library", "planted", len(wanted))
    proof("mutants", "faults planted in the library", "caught", len(wanted) - survivors)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
