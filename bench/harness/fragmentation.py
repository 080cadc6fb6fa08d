# SPDX-License-Identifier: MIT
#
# fragmentation.py: `lab fragmentation`: the peak of resident memory in a results file, divided by the bytes that the
# program had live at most. Those do not depend on the allocator: each workload runs once under liblive.so.
"""Realized fragmentation: resident memory beyond what is live, at the peak of each."""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.allocators import Allocator
from harness.catalogue import workloads
from harness.results import OK, Case, Results, ResultsError
from harness.sampling import Bench, take
from harness.workload import PEAK_RSS_KIB


@dataclass(frozen=True)
class Row:
    """One workload."""

    case: Case
    live_kib: float  # of the process that had most
    over_live: Mapping[str, float]  # peak RSS / live, by allocator: medians


def live_kib(bench: Bench, case: Case) -> float | str:
    """The peak of live KiB of any one process, or why there is none."""
    library = bench.build / "bench/peers/liblive.so"
    if not library.exists():
        raise ResultsError("not built: liblive.so (target freeway_live)")
    with tempfile.NamedTemporaryFile(prefix="freeway-lab-") as file:
        file.write(bytes(8))
        file.flush()
        counting = Allocator("live", library, {"LIVE_FILE": file.name})
        sample = take(bench, workloads()[case.workload], case, counting, 0, check=False)
        file.seek(0)
        live = int.from_bytes(file.read(8), "little")
    return live / 1024 if sample.status == OK and live else sample.detail or "nothing was live"


def peaks(results: Results) -> dict[Case, dict[str, float]]:
    """Medians of the peak RSS of all allocators, in KiB."""
    found: dict[Case, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in results.samples:
        if sample.status == OK and PEAK_RSS_KIB in sample.values and sample.case.workload in workloads():
            found[sample.case][sample.allocator].append(sample.values[PEAK_RSS_KIB])
    return {case: {name: statistics.median(each) for name, each in row.items()} for case, row in found.items()}


def rows(bench: Bench, results: Results, least_kib: float) -> Iterator[Row | str]:
    """A row for each workload with at least so much live, or what went wrong with it."""
    for case, by_allocator in peaks(results).items():
        live = live_kib(bench, case)
        if isinstance(live, str):
            yield f"{case}: {live}"
        elif live >= least_kib:
            yield Row(case, live, {name: kib / live for name, kib in by_allocator.items()})
