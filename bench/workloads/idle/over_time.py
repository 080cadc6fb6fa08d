# SPDX-License-Identifier: MIT
"""A server's memory over a day (server_day.cc) under each allocator: a table, and a drawing of it over time.

build/venv/bin/python bench/workloads/idle/over_time.py [BUILD [DRAWING.svg]]"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(BENCH))

from harness.allocators import Allocator, known_allocators  # noqa: E402
from harness.report import svg  # noqa: E402

DAY_S = 10.0  # busy, then quiet, each twice
EVERY_S = 0.1
# What each offers for idle processes, beside what it does by default.
LINEUP = (
    ("glibc", "", {}),
    ("jemalloc", "", {}),
    ("jemalloc", " + background_thread", {"MALLOC_CONF": "background_thread:true"}),
    ("mimalloc3", "", {}),
    ("tcmalloc", "", {}),
    ("snmalloc", "", {}),
    ("rpmalloc", "", {}),
    ("freeway", "", {}),
    ("freeway", " + BACKGROUND", {"FREEWAY_BACKGROUND": "1"}),
)


@dataclasses.dataclass(frozen=True)
class Day:
    name: str
    resident: list[tuple[float, float]]  # seconds, MiB
    figures: dict[str, float]

    def at(self, second: float) -> float:
        return min(self.resident, key=lambda point: abs(point[0] - second))[1]


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def watched(name: str, program: Path, allocator: Allocator) -> Day:
    environment = allocator.environment()
    if allocator.library is not None:
        environment["LD_PRELOAD"] = str(allocator.library)
    points = []
    with subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, text=True) as process:
        began = time.monotonic()
        while process.poll() is None and time.monotonic() - began < 4 * DAY_S:
            points.append((time.monotonic() - began, resident_mib(process.pid)))
            time.sleep(EVERY_S)
        said, _ = process.communicate()
    result = json.loads(said)
    return Day(name, points[:-1], result.get("figures", result))


def draw(days: list[Day], file: Path) -> None:
    with svg.settings():
        figure, (axes,) = svg.surface(8.2, 3.6, margins=svg.Margins(right=2.7))
        for number, day in enumerate(days):
            ours = day.name.startswith("freeway")
            seconds, mib = zip(*day.resident, strict=True)
            axes.plot(seconds, mib, label=day.name, linewidth=2 if ours else 1, color=f"C{number}")
        axes.set_xlim(0, 4 * DAY_S)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("seconds: busy, quiet, busy, quiet")
        axes.set_ylabel("RSS, MiB")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        alt = "Resident memory of a server over time, a line for each allocator; the table has the figures."
        file.write_text(svg.finish(figure, "memory-over-a-day", alt).file())


def main() -> None:
    build = Path(sys.argv[1] if len(sys.argv) > 1 else BENCH.parent / "build/release").resolve()
    known = known_allocators(build)
    heads = ("allocator", "busy", "1.5 s after", "10 s after", "the second time", "pages of live blocks")
    print(f"| {' | '.join(heads)} |\n" + "|---" * len(heads) + "|")
    days = []
    for name, addition, variables in LINEUP:
        allocator = known.get(name)
        if allocator is None or allocator.failed:
            print(f"| {name}{addition} | {allocator.failed if allocator else 'not known'} |")
            continue
        allocator = dataclasses.replace(allocator, variables={**allocator.variables, **variables})
        day = watched(name + addition, build / "bench/workloads/server_day", allocator)
        days.append(day)
        cells = [day.at(DAY_S - 0.3), day.at(DAY_S + 1.5), day.at(2 * DAY_S - 0.3), day.at(4 * DAY_S - 0.5)]
        cells.append(day.figures["live_pages_kib"] / 1024)
        print(f"| {day.name} | " + " | ".join(f"{cell:.0f}" for cell in cells) + " |", flush=True)
    if len(sys.argv) > 2:
        draw(days, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
