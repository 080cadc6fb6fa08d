# SPDX-License-Identifier: MIT
#
# scripts.py: one program of each of three languages: node runs JavaScript, ruby runs Ruby, java compiles and runs a
# class from its source file, as scripts are started (a virtual machine that comes up, and a compiler in it). One
# operation is one round of the script. Checksum: what it prints.
"""node, ruby or java running a script."""

from __future__ import annotations

from driver import INPUTS, arguments, program, report, run, scaled

# Program, Debian's package, options, script, rounds.
LANGUAGES: dict[str, tuple[str, str, list[str], str, int]] = {
    "node": ("node", "nodejs", [], "node_job.js", 20),
    "ruby": ("ruby", "ruby", ["--disable-gems"], "ruby_job.rb", 16),
    # One garbage collector on every machine: java's choice depends on CPUs and memory.
    "java": ("java", "default-jdk-headless", ["-XX:+UseSerialGC", "-Xmx512m"], "JavaJob.java", 4),
}


def main() -> None:
    """Runs one script."""
    options = arguments(__doc__, language=tuple(LANGUAGES))
    name, package, flags, script, full = LANGUAGES[options.language]
    rounds = scaled(full, options.shrink)
    used = run([program(name, package), *flags, str(INPUTS / script), str(rounds)])
    report(ops=rounds, used=used, checksum=used.stdout_digest())


if __name__ == "__main__":
    main()
