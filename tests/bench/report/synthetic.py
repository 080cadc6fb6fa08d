# SPDX-License-Identifier: MIT
#
# synthetic.py: results that nobody measured, for tests of the report and for looking at it:
"""Made-up results files."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

from harness.catalogue import workloads as declared  # noqa: E402
from harness.results import OK, AllocatorRecord, Count, Run, Sample, Writer  # noqa: E402
from harness.workload import CPU_NS, CPU_S, WALL_NS, Workload  # noqa: E402

RUN_ID = "2030-01-02T03:04:05+00:00"
MACHINE = {
    "cpus": 2, "model": "A made-up CPU", "kernel": "6.1", "libc": "glibc 2.36", "compiler": "g++ 12", "page": 4096,
    "memory_mib": 7800, "governor": "not known", "virtual": True,
}  # fmt: skip
PEERS = (
    "glibc", "mimalloc-2.0", "jemalloc-5.3.0", "tcmalloc-2.10", "tbbmalloc", "mimalloc2", "mimalloc3", "snmalloc",
    "jemalloc", "rpmalloc", "tcmalloc",
)  # fmt: skip
ENGINES = ("michael", "lfmalloc", "streamflow", "hmalloc", "nbbs")
NAMES = ("freeway", "freeway-no-rseq", *PEERS, "locked", *ENGINES)
RSS_POINTS = 120


def run_line(
    workloads: Iterable[str], allocators: Iterable[str] = NAMES, *, repeats: int = 3, **changes: object
) -> Run:
    """A run's head."""
    records = tuple(AllocatorRecord(name, f"lib{name}.so", "1.0") for name in allocators)
    line = Run(RUN_ID, "made-up", repeats, 1, dict(MACHINE), records, tuple(workloads))
    return Run(**{**vars(line), **changes})


def sample(
    workload: str, allocator: str, repeat: int, ns: float, *, threads: int | None = None, kib: int = 10_000,
    status: str = OK, **more: object,
) -> Sample:  # fmt: skip
    """A sample of a million operations that took so many ns each, of CPU and by the clock."""
    values = {
        "ops": 1e6, "seconds": ns / 1000, "cpu_seconds": ns / 1000, "user_s": ns / 1000, "system_s": 0.0,
        "wall_s": ns / 1000, "rss_peak_kib": kib, "vm_peak_kib": 3 * kib, "minor_faults": kib / 4,
        "voluntary_switches": 5, "involuntary_switches": 7,
    }  # fmt: skip
    extra = {key: more.pop(key) for key in list(more) if key not in Sample.__dataclass_fields__}
    values.update(extra)
    return Sample(RUN_ID, repeat, workload, threads, allocator, status, values=values if status == OK else {}, **more)


def write(path: Path, lines: Iterable[Run | Sample | Count]) -> Path:
    """The lines as a results file."""
    with Writer(path) as writer:
        for line in lines:
            writer.write(line)
    return path


def _curve(rng: random.Random, seconds: float, kib: int) -> list[tuple[float, int]]:
    return [
        (round(seconds * at / RSS_POINTS, 3), int(kib * min(1.0, at / 60) * rng.uniform(0.9, 1)))
        for at in range(1, RSS_POINTS + 1)
    ]


def _samples_of(rng: random.Random, workload: Workload, repeats: int, speed: dict[str, float]) -> Iterable[Sample]:
    own = {metric.key for metric in workload.metrics} - {CPU_NS, WALL_NS, CPU_S}
    for threads in workload.threads or (None,):
        base = rng.uniform(3, 300)
        tastes = {name: speed[name] * rng.lognormvariate(0, 0.3) for name in NAMES}
        for repeat in range(repeats):
            for name in workload.allocators or NAMES:
                ns = base * tastes.get(name, 2.0) * rng.uniform(0.97, 1.05)
                kib = int(20_000 * tastes.get(name, 2.0) ** 0.5 * (1 + (threads or 1) / 30))
                extras = {key: rng.uniform(0.5, 40) for key in own if not key.endswith("kib")}
                curve = tuple(_curve(rng, ns / 50, kib))
                noisy = rng.random() < 0.01
                yield sample(
                    workload.name, name, repeat, ns, threads=threads, kib=kib, rss=curve, noisy=noisy,
                    foreign_cpu=0.2 if noisy else 0.0, **extras,
                )  # fmt: skip


def full(path: Path, repeats: int = 3, seed: int = 7) -> Path:
    """Every workload of the catalogue under many allocators, with some failures."""
    rng = random.Random(seed)
    workloads = declared()
    speed = {name: (1.0 if name == "freeway" else rng.uniform(1.0, 3.0)) for name in NAMES}
    lines: list[Run | Sample | Count] = [run_line(workloads, repeats=repeats)]
    for workload in workloads.values():
        for each in _samples_of(rng, workload, repeats, speed):
            dies = each.allocator == "rpmalloc" and each.workload == "larson-2"
            hangs = each.allocator == "nbbs" and each.workload == "fork"
            if dies or hangs:
                why = ("crashed", "signal 11 (SIGSEGV)") if dies else ("hung", "stopped after 300 s")
                each = Sample(**{**vars(each), "status": why[0], "detail": why[1], "values": {}, "rss": ()})  # noqa: PLW2901
            lines.append(each)
    for name in NAMES:
        lines.append(Count(RUN_ID, "malloc(32) + free", name, rng.randrange(30, 130), None, "callgrind"))
        lines.append(Count(RUN_ID, "malloc(32) + free", name, None, rng.choice([0, 0, 2, 3]), "counted build"))
    return write(path, lines)


if __name__ == "__main__":
    full(Path(sys.argv[1]))
