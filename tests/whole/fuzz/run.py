#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the fuzzers of a build with the preset `fuzz`, several at once, and says what they tried.

    tests/whole/fuzz/run.py build/fuzz --seconds 600      all fuzzers, ten minutes together
    tests/whole/fuzz/run.py build/fuzz --only malloc      those whose name contains this
    tests/whole/fuzz/run.py build/fuzz --make             configures and builds them before
    tests/whole/fuzz/run.py build/fuzz --keep             puts what is new into corpus/*.tar.xz, minimised

The malloc fuzzer runs once for each way the library can be: with and without rseq, hardened, and as each engine. New
inputs go to <build>/corpus. If a fuzzer finds something, its input's path is printed and the exit status is 1; it is 77
where --make finds no clang with libFuzzer.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from proof import proof

SOURCE = Path(__file__).resolve().parents[3]
KEPT = Path(__file__).resolve().parent / "corpus"  # FUZZER.tar.xz each
ENGINES = ("michael", "lfmalloc", "streamflow", "hmalloc", "nbbs")
KEPT_BYTES = {"malloc": 140_000, "buddy": 110_000, "options": 30_000}


@dataclass(frozen=True)
class Job:
    """One run of one fuzzer."""

    name: str
    fuzzer: str
    subject: str
    share: int  # of the time
    length: int  # bytes of an input, at most
    environment: dict[str, str] = field(default_factory=dict)


def jobs(build: Path) -> list[Job]:
    """All runs; the flagship's get more time than the engines'."""
    found = [
        Job("malloc, rseq", "malloc", "malloc family", 4, 4096, {"FREEWAY_RSEQ": "1"}),
        Job("malloc, without rseq", "malloc", "malloc family", 3, 4096, {"FREEWAY_RSEQ": "0"}),
        Job("malloc, hardened", "malloc", "malloc family", 3, 4096, {"FREEWAY_HARDEN": "1"}),
    ]
    for engine in ENGINES:
        place = build / "engines" / engine
        if place.exists():
            found.append(
                Job(f"malloc, {engine}", "malloc", f"malloc family, {engine}", 1, 4096, {"LD_LIBRARY_PATH": str(place)})
            )
    found.append(Job("buddy", "buddy", "buddy system", 3, 2048))
    found.append(Job("options", "options", "environment", 2, 600))
    return found


@dataclass
class Result:
    """What a run left behind."""

    job: Job
    status: int
    executions: int
    edges: int
    crash: str | None
    log: Path


def run(job: Job, build: Path, seconds: int) -> Result:
    """Runs one fuzzer for `seconds`; its log and what it found stay in the build's folder."""
    found = build / "corpus" / job.fuzzer
    found.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"\W+", "-", job.name)
    log = build / f"{slug}.log"
    prefix = build / f"found-{slug}-"
    command = [str(build / "tests/whole/fuzz" / f"{job.fuzzer}_fuzzer"), f"-max_total_time={seconds}"]
    command += [f"-max_len={job.length}", "-timeout=60", "-print_final_stats=1", f"-artifact_prefix={prefix}"]
    command += [str(found), str(build / "kept" / job.fuzzer)]
    with log.open("wb") as output:
        status = subprocess.run(
            command, check=False, stdout=output, stderr=subprocess.STDOUT, env=os.environ | job.environment
        ).returncode
    text = log.read_bytes().decode(errors="replace")
    executions = re.search(r"number_of_executed_units: (\d+)", text)
    edges = re.findall(r"cov: (\d+)", text)
    crash = re.search(r"Test unit written to (\S+)", text)
    return Result(
        job,
        status,
        int(executions[1]) if executions else 0,
        max(map(int, edges), default=0),
        crash[1] if crash else None,
        log,
    )


def record(result: Result) -> None:
    proof("fuzzing", result.job.subject, "executions", result.executions)
    proof("fuzzing", result.job.subject, "edges covered", result.edges, most=True)


def make(build: Path) -> bool:
    """Configures and builds the preset `fuzz`. False: there is no clang for it."""
    compiler = shutil.which("clang++-19") or shutil.which("clang++")
    probe = ["-x", "c++", "-fsanitize=fuzzer,address", "-o", "/dev/null", "-"]
    program = b'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
    if compiler is None or subprocess.run([compiler, *probe], input=program, check=False).returncode != 0:
        return False
    build.mkdir(parents=True, exist_ok=True)
    with (build / "make.log").open("wb") as log:
        for command in (
            ["cmake", "--preset", "fuzz", "-B", str(build)],
            ["cmake", "--build", str(build), "--target", "fuzzers", "-j", "1"],
        ):
            if subprocess.run(command, check=False, cwd=SOURCE, stdout=log, stderr=log).returncode != 0:
                sys.exit(f"{' '.join(command)} failed: {log.name}")
    return True


def keep(build: Path, fuzzer: str, environments: list[dict[str, str]]) -> None:
    """Minimises what was found and what was kept to what together covers as much, smallest inputs first."""
    merged = build / "merged" / fuzzer
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    for environment in environments:
        command = [str(build / "tests/whole/fuzz" / f"{fuzzer}_fuzzer"), "-set_cover_merge=1", str(merged)]
        command += [str(build / kind / fuzzer) for kind in ("kept", "corpus")]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=os.environ | environment)
    left = KEPT_BYTES[fuzzer]
    with tarfile.open(KEPT / f"{fuzzer}.tar.xz", "w:xz") as archive:
        for path in sorted(merged.iterdir(), key=lambda each: (each.stat().st_size, each.name)):
            left -= path.stat().st_size
            if left < 0:
                break
            entry = tarfile.TarInfo(f"{fuzzer}/{path.name[:16]}")  # of no time and no owner
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                archive.addfile(entry, content)


def main() -> int:
    """Runs what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=int, default=600, help="of all runs together, on the clock (default 600)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="at once (default: the CPUs)")
    parser.add_argument("--only", default="", help="runs whose name contains this")
    parser.add_argument("--make", action="store_true", help="configure and build first")
    parser.add_argument("--fresh", action="store_true", help="begin with the kept inputs only, not with earlier runs'")
    parser.add_argument("--keep", action="store_true", help="keep what is new")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    if arguments.make and not make(build):
        print("no clang++ with libFuzzer", file=sys.stderr)
        return 77
    shutil.rmtree(build / "kept", ignore_errors=True)
    for kept in KEPT.glob("*.tar.xz"):
        shutil.unpack_archive(kept, build / "kept")
    if arguments.fresh:
        shutil.rmtree(build / "corpus", ignore_errors=True)
    chosen = [job for job in jobs(build) if arguments.only in job.name]
    if not chosen:
        parser.error(f"no fuzzer's name contains '{arguments.only}'")
    shares = sum(job.share for job in chosen)
    at_once = max(1, min(arguments.jobs, len(chosen)))

    def one(job: Job) -> Result:
        result = run(job, build, max(1, arguments.seconds * at_once * job.share // shares))
        record(result)
        outcome = "ok" if result.status == 0 else f"FAILED, status {result.status}"
        print(f"{job.name:24} {result.executions:>9} executions  {result.edges:>6} edges  {outcome}", flush=True)
        return result

    with ThreadPoolExecutor(at_once) as pool:
        results = list(pool.map(one, chosen))
    failed = [result for result in results if result.status != 0]
    for result in failed:
        print(f"{result.job.name}: {result.crash or 'no input was written'}; log: {result.log}", file=sys.stderr)
        for name, value in result.job.environment.items():
            print(f"    {name}={value}", file=sys.stderr)
    if failed:
        return 1
    if arguments.keep:
        for fuzzer in sorted({job.fuzzer for job in chosen}):
            # What covers the flagship: a merge for each engine would take longer than it brings.
            flagship = [job for job in chosen if job.fuzzer == fuzzer and "LD_LIBRARY_PATH" not in job.environment]
            keep(build, fuzzer, [job.environment for job in flagship])
    return 0


if __name__ == "__main__":
    sys.exit(main())
