# SPDX-License-Identifier: MIT
#
# Interpreters and language tools under the preload, each with a workload of its own from sources/. Argument: which.
"""perl, ruby, bash, node, java and cargo."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from preload import SOURCES, check, main, need, prove_preload, same, succeed

LONG = "long" in sys.argv[2:]
SCALE = "8" if LONG else "1"
TIMEOUT_S = 600.0 if LONG else 120.0


def perl(folder: Path) -> None:
    """Hashes, regular expressions, interpreter threads, forks."""
    program = need("perl", "perl")
    prove_preload([program, "-e", "1"])
    same([program, str(SOURCES / "workload.pl"), SCALE], cwd=folder, timeout=TIMEOUT_S)


def ruby(folder: Path) -> None:
    """Threads, fibers, forks, a compacting collection."""
    program = need("ruby", "ruby")
    prove_preload([program, "-e", "1"])
    same([program, str(SOURCES / "workload.rb"), SCALE], cwd=folder, timeout=TIMEOUT_S)


def bash(folder: Path) -> None:
    """Hundreds of forks."""
    program = need("bash", "bash")
    prove_preload([program, "-c", "seq 1"], ["seq"])
    same([program, str(SOURCES / "workload.sh"), "5000" if LONG else "500"], cwd=folder, timeout=TIMEOUT_S)


def node(folder: Path) -> None:
    """JSON, the thread pool, worker threads."""
    program = need("node", "nodejs")
    prove_preload([program, "--version"])
    same([program, str(SOURCES / "workload.js"), SCALE], cwd=folder, timeout=TIMEOUT_S)


def java(folder: Path) -> None:
    """javac makes the same class files; the program runs on three garbage collectors."""
    javac, program = need("javac", "default-jdk-headless"), need("java", "default-jdk-headless")
    prove_preload([program, "-version"])
    classes = {}
    for preload in (False, True):
        into = folder / str(preload)
        succeed([javac, "-d", str(into), str(SOURCES / "Workload.java")], preload=preload, cwd=folder)
        classes[preload] = {file.name: file.read_bytes() for file in into.iterdir()}
    check(classes[False] == classes[True], "javac's class files differ")
    check("Workload.class" in classes[True], "javac left no class file behind")
    for collector in ("G1", "Parallel", "Serial") if LONG else ("G1",):
        options = [f"-XX:+Use{collector}GC", "-Xmx300m", "-XX:-UsePerfData", "-cp", str(folder / "True")]
        same([program, *options, "Workload", SCALE], cwd=folder, timeout=TIMEOUT_S)


def cargo(folder: Path) -> None:
    """cargo and rustc build a crate; the result is the same and runs the same."""
    program = need("cargo", "cargo")
    prove_preload([program, "--version"])
    prove_preload([need("rustc", "cargo"), "--version"])
    # The same path both times: it is part of what rustc writes.
    crate = folder / "crate"
    binaries = {}
    for preload in (False, True):
        shutil.rmtree(crate, ignore_errors=True)
        shutil.copytree(SOURCES / "crate", crate)
        env = {"CARGO_HOME": str(folder / "home"), "CARGO_TERM_COLOR": "never", "CARGO_INCREMENTAL": "0"}
        argv = [program, "build", "--release", "--offline", "--quiet"]
        succeed(argv, preload=preload, cwd=crate, env=env, timeout=TIMEOUT_S)
        binaries[preload] = (crate / "target/release/workload").read_bytes()
    check(binaries[False] == binaries[True], "the program that cargo built differs from the one built without preload")
    built = folder / "workload"
    built.write_bytes(binaries[True])
    built.chmod(0o755)
    prove_preload([str(built)])
    same([str(built)])


if __name__ == "__main__":
    chosen = {test.__name__: test for test in (perl, ruby, bash, node, java, cargo)}
    if len(sys.argv) < 2 or sys.argv[1] not in chosen:
        sys.exit(f"usage: languages.py {'|'.join(chosen)} [long]")
    main(chosen[sys.argv[1]])
