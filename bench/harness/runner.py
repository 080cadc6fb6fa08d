# SPDX-License-Identifier: MIT
#
# runner.py: carries out a plan. One repeat goes through all rows; in each row all allocators run one after the other,
# in another order each time. What fails is written down and the run goes on; what was measured is in the file at
# once.
#
#   warm-up    before a row's first sample, each allocator runs a tenth of the work once: the files are then in memory,
#              and the loader proves that malloc is the allocator's. A warm-up that fails is the row's first sample.
#   failures   after two, a row is not tried with that allocator any more
#   noise      a sample during which other processes used more than NOISY of the machine is taken again, twice at most,
#              and the least disturbed one counts; on a machine that is never quiet this is given up
#   checksums  of one row must agree; those in the minority are marked when a row's allocators have all run
"""Measuring."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from harness.allocators import GLIBC, Allocator
from harness.plan import Item, shuffled
from harness.progress import RunProgress
from harness.results import MISSING, OK, WRONG_CHECKSUM, Case, Sample, Writer
from harness.sampling import Bench, take

NOISY = 0.08
NOISE_RETRIES = 2
RESTLESS = 10  # so many noisy samples of the last twice as many: repeating does not help here
MOST_FAILURES = 2
WARM_UP_SHRINK = 10


def majority(checksums: Sequence[str]) -> str:
    """The checksum that most have; of equals the first, so put the one most trusted there."""
    return Counter(checksums).most_common(1)[0][0]


@dataclass
class Runner:
    """A run under way."""

    bench: Bench
    writer: Writer
    progress: RunProgress
    deadline: float | None = None  # of time.monotonic()
    retries: int = NOISE_RETRIES
    failures: Counter[tuple[Case, str]] = field(default_factory=Counter)
    done: set[tuple[int, Case, str]] = field(default_factory=set)
    checksums: dict[Case, dict[str, str]] = field(default_factory=dict)  # by allocator
    absent: set[Case] = field(default_factory=set)  # rows whose program is not installed
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=2 * RESTLESS))
    noisy: int = 0

    def resume(self, samples: Iterable[Sample]) -> None:
        """Takes over what a file already holds; what was missing is tried again."""
        for sample in samples:
            if sample.status == MISSING:
                continue
            self.done.add(sample.place)
            if sample.status != OK:
                self.failures[sample.case, sample.allocator] += 1
            elif sample.checksum:
                self.checksums.setdefault(sample.case, {})[sample.allocator] = sample.checksum

    def run(self, plan: Sequence[Item]) -> bool:
        """All repeats of all rows; False if the time was over before."""
        warm: set[Case] = set()
        for repeat in range(max((item.repeats for item in plan), default=0)):
            for item in plan:
                if repeat >= item.repeats:
                    continue
                if self.deadline is not None and time.monotonic() > self.deadline:
                    return False
                self._row(item, repeat, warm)
        return True

    def _row(self, item: Item, repeat: int, warm: set[Case]) -> None:
        order = shuffled(item.allocators, item.case, repeat)
        wanted = [a for a in order if (repeat, item.case, a.name) not in self.done]
        self.progress.advance(len(order) - len(wanted))
        if not wanted:
            return
        self.progress.row(repeat, item.case)
        if item.case not in warm:
            warm.add(item.case)
            for allocator in wanted:
                self._warm_up(item, allocator, repeat)
        fresh = []
        for allocator in wanted:
            if self._wanted(item.case, allocator, repeat):
                self.progress.sample(repeat, item.case, allocator.name)
                fresh.append(self._quiet_sample(item, allocator, repeat))
                self._keep(fresh[-1])
            self.progress.advance()
        self._mark_checksums(item.case, fresh)

    def _wanted(self, case: Case, allocator: Allocator, repeat: int) -> bool:
        failed = self.failures[case, allocator.name] >= MOST_FAILURES
        return not failed and case not in self.absent and (repeat, case, allocator.name) not in self.done

    def _warm_up(self, item: Item, allocator: Allocator, repeat: int) -> None:
        if not self._wanted(item.case, allocator, repeat):
            return
        self.progress.sample(repeat, item.case, f"{allocator.name} (warm-up)")
        lighter = replace(self.bench, shrink=self.bench.shrink * WARM_UP_SHRINK)
        sample = take(lighter, item.workload, item.case, allocator, repeat, check=True)
        if sample.status != OK:
            self._keep(replace(sample, detail=f"{sample.detail} (in the warm-up)"))

    def _quiet_sample(self, item: Item, allocator: Allocator, repeat: int) -> Sample:
        """A sample, repeated while others disturb it."""
        best = take(self.bench, item.workload, item.case, allocator, repeat, check=False)
        for _ in range(self.retries):
            if best.status != OK or best.foreign_cpu <= NOISY or sum(self.recent) >= RESTLESS:
                break
            again = take(self.bench, item.workload, item.case, allocator, repeat, check=False)
            if again.status != OK or again.foreign_cpu < best.foreign_cpu:
                best = again
        noisy = best.status == OK and best.foreign_cpu > NOISY
        self.recent.append(noisy)
        self.noisy += noisy
        return replace(best, noisy=noisy)

    def _keep(self, sample: Sample) -> None:
        """Writes a sample down; a failed one is said at once."""
        self.writer.write(sample)
        self.done.add(sample.place)
        if sample.status == OK:
            return
        if sample.status == MISSING:
            self.absent.add(sample.case)
            self.progress.note(f"{sample.case}: left out: {sample.detail}")
            return
        place = (sample.case, sample.allocator)
        self.failures[place] += 1
        last = "; not tried again" if self.failures[place] == MOST_FAILURES else ""
        self.progress.note(f"{sample.case} under {sample.allocator}: {sample.status}: {sample.detail}{last}")

    def _mark_checksums(self, case: Case, fresh: Sequence[Sample]) -> None:
        """Compares a row's checksums, a vote for each allocator; the minority's samples are written again, marked."""
        known = self.checksums.setdefault(case, {})
        for sample in fresh:
            if sample.status == OK and sample.checksum:
                known.setdefault(sample.allocator, sample.checksum)
        if not known:
            return
        right = majority([known[name] for name in sorted(known, key=lambda name: name != GLIBC)])
        for sample in fresh:
            if sample.status == OK and sample.checksum and sample.checksum != right:
                detail = f"{sample.checksum}, but most have {right}: blocks overlapped or lost their contents"
                self._keep(replace(sample, status=WRONG_CHECKSUM, detail=detail))
