# SPDX-License-Identifier: MIT
"""The runner's decisions, with samples that are made up instead of measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import machine, runner
from harness.allocators import Allocator
from harness.plan import Item, shuffled
from harness.results import CRASHED, MISSING, OK, WRONG_CHECKSUM, AllocatorRecord, Case, Results, Run, Sample, Writer
from harness.results import read as read_results
from harness.runner import Runner, majority
from harness.sampling import Bench
from harness.workload import CPU_NS, Metric, Workload

WORKLOAD = Workload("w", ("w",), (Metric(CPU_NS, "time"),), ("today",))
CASE = Case("w")
Answer = Callable[[str, int, bool], Sample]


class Quiet:
    """A progress display that shows nothing and remembers the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def row(self, *_: object) -> None: ...
    def sample(self, *_: object) -> None: ...
    def advance(self, *_: object) -> None: ...
    def note(self, text: str) -> None:
        self.notes.append(text)


class Laboratory:
    """A runner whose samples `answer` makes up: (allocator, repeat, whether it is the warm-up) -> sample."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
        self.path, self.taken, self.notes = folder / "results.jsonl", [], Quiet()
        self._answer = answer
        monkeypatch.setattr(runner, "take", self._take)
        with Writer(self.path) as writer:
            writer.write(Run("t0", "today", 1, 1, {}, (AllocatorRecord("glibc", None, "1"),), ("w",)))

    def _take(
        self, _bench: Bench, _workload: Workload, _case: Case, allocator: Allocator, repeat: int, check: bool
    ) -> Sample:
        self.taken.append((repeat, allocator.name, check))
        return self._answer(allocator.name, repeat, check)

    def run(self, names: str, repeats: int, old: Results | None = None, deadline: float | None = None) -> Results:
        with Writer(self.path) as writer:
            made = Runner(Bench(Path(), "t0"), writer, self.notes, deadline)  # type: ignore[arg-type]
            if old:
                made.resume(old.samples)
            allocators = tuple(Allocator(name, None) for name in names.split())
            self.complete = made.run([Item(WORKLOAD, CASE, allocators, repeats)])
        return read_results(self.path)

    @property
    def measured(self) -> list[tuple[int, str]]:
        return [(repeat, name) for repeat, name, check in self.taken if not check]


def sample(name: str, repeat: int, status: str = OK, checksum: str = "c", foreign: float = 0.0) -> Sample:
    return Sample("t0", repeat, "w", None, name, status, values={"ops": 1}, checksum=checksum, foreign_cpu=foreign)


@pytest.fixture
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], Laboratory]:
    return lambda answer: Laboratory(tmp_path, monkeypatch, answer)


def good(name: str, repeat: int, _check: bool) -> Sample:
    return sample(name, repeat)


def test_allocators_take_turns_after_a_warm_up_of_each(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(good)
    lab.run("a b c", 2)
    assert sorted(lab.taken[:3]) == [(0, "a", True), (0, "b", True), (0, "c", True)]
    assert not any(check for _, _, check in lab.taken[3:])
    three = [Allocator(name, None) for name in "abc"]
    assert lab.measured == [(repeat, a.name) for repeat in (0, 1) for a in shuffled(three, CASE, repeat)]


def test_after_two_failures_an_allocator_is_skipped_and_the_others_go_on(
    laboratory: Callable[[Answer], Laboratory],
) -> None:
    lab = laboratory(lambda name, repeat, check: sample(name, repeat, CRASHED if name == "bad" and not check else OK))
    results = lab.run("good bad", 4)
    assert [s.status for s in results.of(CASE, "bad")] == [CRASHED, CRASHED]
    assert [s.status for s in results.of(CASE, "good")] == [OK] * 4
    assert "not tried again" in lab.notes.notes[-1]


def test_a_failing_warm_up_is_a_failed_sample(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(lambda name, repeat, check: sample(name, repeat, CRASHED if check else OK))
    results = lab.run("a", 2)
    assert [s.status for s in results.of(CASE, "a")] == [CRASHED, OK]
    assert "warm-up" in results.of(CASE, "a")[0].detail


def test_a_disturbed_sample_is_taken_again_and_the_calmest_kept(laboratory: Callable[[Answer], Laboratory]) -> None:
    foreign = iter([0.0, 0.5, 0.3, 0.4])  # the warm-up, then the sample and two more
    lab = laboratory(lambda name, repeat, check: sample(name, repeat, foreign=next(foreign)))
    (kept,) = lab.run("a", 1).samples
    assert (kept.foreign_cpu, kept.noisy) == (0.3, True)


def test_a_sample_that_was_calm_the_second_time_is_not_noisy(laboratory: Callable[[Answer], Laboratory]) -> None:
    foreign = iter([0.0, 0.5, 0.01])
    lab = laboratory(lambda name, repeat, check: sample(name, repeat, foreign=next(foreign)))
    (kept,) = lab.run("a", 1).samples
    assert (kept.foreign_cpu, kept.noisy) == (0.01, False)


def test_on_a_machine_that_is_never_quiet_repeating_is_given_up(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(lambda name, repeat, check: sample(name, repeat, foreign=0.5))
    results = lab.run("a", 30)
    assert all(s.noisy for s in results.samples)
    assert len(lab.measured) == runner.RESTLESS * 3 + 20


def test_a_checksum_in_the_minority_is_marked(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(lambda name, repeat, _check: sample(name, repeat, checksum="bad" if name == "x" else "good"))
    results = lab.run("x glibc b", 3)
    assert [s.status for s in results.of(CASE, "x")] == [WRONG_CHECKSUM, WRONG_CHECKSUM]
    assert [s.status for s in results.of(CASE, "glibc") + results.of(CASE, "b")] == [OK] * 6


def test_of_two_differing_checksums_glibcs_is_right(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(lambda name, repeat, _check: sample(name, repeat, checksum=name))
    results = lab.run("x glibc", 1)
    assert [s.status for s in results.of(CASE, "x") + results.of(CASE, "glibc")] == [WRONG_CHECKSUM, OK]


def test_a_checksum_that_changes_between_repeats_is_marked(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(lambda name, repeat, _check: sample(name, repeat, checksum=str(min(repeat, 1))))
    assert [s.status for s in lab.run("a", 2).of(CASE, "a")] == [OK, WRONG_CHECKSUM]


def test_without_checksums_nothing_is_compared(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(lambda name, repeat, _check: sample(name, repeat, checksum="" if name == "x" else "c"))
    assert all(s.status == OK for s in lab.run("x b", 1).samples)


def test_majority_prefers_the_first_of_equals() -> None:
    assert majority(["a", "b", "b"]) == "b"
    assert majority(["a", "b"]) == "a"


def test_what_is_not_installed_is_tried_once_and_named(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(lambda name, repeat, _check: sample(name, repeat, MISSING))
    lab.run("a b", 3)
    assert [(repeat, check) for repeat, _, check in lab.taken] == [(0, True)]
    assert len(lab.notes.notes) == 1


def test_resuming_takes_only_what_is_not_there(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(good)
    old = lab.run("a b", 2)
    lab.taken.clear()
    results = lab.run("a b c", 3, old)
    assert sorted(lab.measured) == [(0, "c"), (1, "c"), (2, "a"), (2, "b"), (2, "c")]
    assert len(results.samples) == 9


def test_resuming_remembers_failures(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(lambda name, repeat, _check: sample(name, repeat, CRASHED))
    old = lab.run("a", 2)
    lab.taken.clear()
    lab.run("a", 5, old)
    assert lab.taken == []


def test_no_row_is_begun_after_the_time_limit(laboratory: Callable[[Answer], Laboratory]) -> None:
    lab = laboratory(good)
    lab.run("a b", 3, deadline=time.monotonic() - 1)
    assert lab.taken == []
    assert not lab.complete


def test_foreign_cpu_is_what_is_neither_idle_nor_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, busy, own = iter([100.0, 102.0]), iter([50.0, 53.0]), iter([10.0, 12.0])
    monkeypatch.setattr(machine.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(machine, "_busy_s", lambda: next(busy))
    monkeypatch.setattr(machine, "_own_s", lambda: next(own))
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 2)
    # In 2 s of 2 CPUs somebody worked for 3 s, we for 2 s of them: 1 s of 4 is foreign.
    assert machine.ForeignCpu().share() == pytest.approx(0.25)
