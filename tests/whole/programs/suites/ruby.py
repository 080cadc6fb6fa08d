# SPDX-License-Identifier: MIT
#
# ruby.py: Ruby's tests of the language and its core (test/ruby) and ruby/spec (core, language), both from Debian's
# source, with Debian's ruby. Left out: tests of what is built beside the interpreter (extensions in C, mkmf), of the
# libraries that are written in Ruby, and, as Debian's own run of the suite does, what its lists of excluded tests name.
"""Ruby's test suite and ruby/spec."""

from __future__ import annotations

from pathlib import Path

import suite
from by_file import ByFile
from debian_source import fetch
from preload import SOURCES, need

KEPT = ("debian", "spec", "test", "tool")
EXCLUDED = ("test/excludes", "debian/tests/excludes/any", "debian/tests/excludes/autopkgtest")
SPECS = ("language", "core")  # but chroot_spec.rb, which takes the superuser's runner away from its report
ENVIRONMENT = {"RUBY_EXE": "/usr/bin/ruby", "RUBY_FLAGS": ""}  # for examples that start a ruby themselves
ENDS = (0, 1)  # all passed; some failed
SLOWER = "5"  # the tests' own limits of time, for a busy machine
SEED = "1"  # of the order of tests: one may leave its class changed for the next


def ruby() -> str:
    """Debian's interpreter."""
    return need("ruby", "ruby")


def build(work: Path) -> None:
    """Only the source is needed."""
    ruby()
    fetch(work, "ruby3.1", kept=KEPT)


def files(work: Path) -> list[str]:
    """The files of test/ruby and the folders of ruby/spec, one for each class."""
    source = work / "source"
    tests = [str(path.relative_to(source)) for path in source.glob("test/ruby/**/test_*.rb")]
    examples = (path for group in SPECS for path in source.glob(f"spec/ruby/{group}/**/*_spec.rb"))
    specs = {str(path.parent.relative_to(source)) for path in examples}
    return sorted(tests) + sorted(specs)


def command(work: Path, file: str) -> list[str]:
    """A file of tests by Ruby's runner; a folder of examples by mspec, without those below it."""
    source = work / "source"
    if file.startswith("test/"):
        without = [f"--excludes-dir={source / folder}" for folder in EXCLUDED]
        reporter = ["-I", str(source / "tool/lib"), "-r", str(SOURCES / "ruby_outcomes.rb")]
        return [
            ruby(),
            *reporter,
            "test/runner.rb",
            "-v",
            f"--timeout-scale={SLOWER}",
            f"--seed={SEED}",
            *without,
            file,
        ]
    reporter = ["-f", str(SOURCES / "mspec_outcomes.rb")]
    examples = sorted(str(path) for path in (source / file).glob("*_spec.rb") if path.name != "chroot_spec.rb")
    return [ruby(), "spec/mspec/bin/mspec-run", "-B", "spec/ruby/default.mspec", *reporter, *examples]


FILES = ByFile(files, command, lambda work: work / "source", ENDS, ENVIRONMENT)
RUBY = suite.Suite(
    "ruby",
    build=build,
    outcomes=FILES.outcomes,
    least=30_000,
    proves=lambda _: [ruby(), "-e", "Thread.new { puts 1 }.join"],
)


if __name__ == "__main__":
    suite.run(RUBY)
