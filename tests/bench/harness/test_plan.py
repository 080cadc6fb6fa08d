# SPDX-License-Identifier: MIT
"""What a run consists of."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from harness.allocators import GLIBC, Allocator, known_allocators, parse
from harness.catalogue import workloads
from harness.plan import ALL, CHOSEN, SUITES, chosen, make_plan, shuffled
from harness.results import Case
from harness.workload import CPU_NS, Metric, Workload

TIME = (Metric(CPU_NS, "time"),)
PLAIN = Workload("plain", ("plain",), TIME, ("today", "quick"), ("fast",))
THREADED = Workload(
    "scaled-michael", ("scaled", "--threads", "{threads}"), TIME, ("papers", "quick"),
    paper="michael", threads=(1, 4, 16), scaling=(64,),
)  # fmt: skip
OWN = Workload("own", ("own",), TIME, ("papers",), allocators=("nbbs",))
EVERYTHING = (PLAIN, THREADED, OWN)
KNOWN = {
    name: Allocator(name, None)
    for name in (GLIBC, "freeway", "locked", "nbbs", "michael", "michael-one-heap", "hmalloc", "mimalloc-2.0")
} | {"mimalloc3": Allocator("mimalloc3", None, failed="not built")}


def plan_names(suite: str, *given: Allocator, cpus: int = 2) -> dict[Case, list[str]]:
    return {i.case: [a.name for a in i.allocators] for i in make_plan(suite, EVERYTHING, KNOWN, cpus, given)}


def test_quick_takes_one_number_of_threads_that_the_machine_has() -> None:
    assert Case("scaled-michael", 1) in plan_names("quick", cpus=2)
    assert Case("scaled-michael", 4) in plan_names("quick", cpus=8)
    assert len(plan_names("quick")) == 2


def test_papers_takes_the_papers_threads_its_engine_and_its_variants() -> None:
    rows = plan_names("papers")
    assert [case.threads for case in rows if case.workload == "scaled-michael"] == [1, 4, 16]
    assert rows[Case("scaled-michael", 16)] == [GLIBC, "locked", "freeway", "michael", "michael-one-heap"]


def test_scaling_reaches_all_cpus_and_beyond() -> None:
    rows = plan_names("scaling", cpus=24)
    assert [case.threads for case in rows] == [1, 2, 4, 8, 16, 24, 64]
    assert "michael" in rows[Case("scaled-michael", 24)]
    assert "hmalloc" not in rows[Case("scaled-michael", 24)]


def test_a_missing_peer_stays_in_the_plan_beside_its_stand_in() -> None:
    names = plan_names("quick")[Case("plain")]
    assert "mimalloc3" in names
    assert "mimalloc-2.0" in names


def test_a_workload_of_one_allocator_is_not_run_with_others() -> None:
    assert plan_names("papers")[Case("own")] == ["nbbs"]
    assert Case("own") not in plan_names("papers", KNOWN[GLIBC])


def test_all_has_each_row_once_with_the_allocators_of_all_suites() -> None:
    rows = plan_names(ALL)
    assert "mimalloc-2.0" in rows[Case("scaled-michael", 1)]
    assert "locked" in rows[Case("scaled-michael", 1)]
    assert {case.threads for case in rows if case.workload == "scaled-michael"} == {1, 2, 4, 16, 64}
    assert len(rows[Case("plain")]) == len(set(rows[Case("plain")]))


def test_named_workloads_are_measured_as_their_own_suite_does() -> None:
    plan = make_plan(CHOSEN, [PLAIN], KNOWN, 2)
    assert [item.repeats for item in plan] == [SUITES["today"].repeats]


def test_given_allocators_and_repeats_replace_the_suites() -> None:
    plan = make_plan("quick", [PLAIN], KNOWN, 2, [KNOWN["nbbs"]], 3)
    assert [(item.repeats, [a.name for a in item.allocators]) for item in plan] == [(3, ["nbbs"])]


def test_words_choose_by_name_group_paper_or_beginning() -> None:
    assert [w.name for w in chosen(EVERYTHING, ["fast"])] == ["plain"]
    assert [w.name for w in chosen(EVERYTHING, ["michael"])] == ["scaled-michael"]
    assert [w.name for w in chosen(EVERYTHING, ["own", "pl"])] == ["plain", "own"]
    assert len(chosen(EVERYTHING, [])) == 3
    with pytest.raises(ValueError, match="nonsense"):
        chosen(EVERYTHING, ["plain", "nonsense"])


def test_no_allocator_always_follows_the_same_other() -> None:
    four = [KNOWN[name] for name in (GLIBC, "freeway", "nbbs", "locked")]
    orders = [[a.name for a in shuffled(four, Case("plain"), repeat)] for repeat in range(60)]
    assert all(sorted(order) == sorted(a.name for a in four) for order in orders)
    assert len({order[0] for order in orders}) == 4
    neighbours = {pair for order in orders for pair in itertools.pairwise(order)}
    assert len(neighbours) == 4 * 3
    assert orders[7] == [a.name for a in shuffled(four, Case("plain"), 7)], "a resumed run goes on with the same order"
    assert shuffled([], Case("plain"), 3) == []


def test_catalogue_declares_what_a_plan_can_use() -> None:
    for workload in workloads().values():
        assert workload.metrics, workload.name
        assert set(workload.suites) <= set(SUITES), workload.name
        assert ("{threads}" in " ".join(workload.argv)) == bool(workload.threads or workload.scaling), workload.name


def test_without_a_manifest_the_missing_peers_are_named(tmp_path: Path) -> None:
    known = known_allocators(tmp_path, tmp_path / "manifest.json")
    assert "make peers" in (known["snmalloc"].failed or "")
    assert known["freeway"].failed == "not built: libfreeway.so"
    assert known[GLIBC].failed is None


def test_the_manifest_says_what_was_built_and_what_failed(tmp_path: Path) -> None:
    (tmp_path / "libsn.so").write_bytes(b"library")
    entries = [
        {"name": "snmalloc", "library": "libsn.so", "version": "0.7.6", "origin": "a crate", "failed": None},
        {"name": "rpmalloc", "library": None, "version": "1.4", "origin": "a crate", "failed": "no compiler"},
        {"name": "jemalloc", "library": "gone.so", "version": "5", "failed": None, "variables": {"A": "1"}},
    ]
    (tmp_path / "manifest.json").write_text(json.dumps(entries))
    known = known_allocators(tmp_path, tmp_path / "manifest.json")
    assert (known["snmalloc"].version, known["snmalloc"].failed) == ("0.7.6", None)
    assert known["rpmalloc"].failed == "no compiler"
    assert "gone.so" in (known["jemalloc"].failed or "")


def test_records_hold_no_folder_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "libx.so").write_bytes(b"library")
    (given,) = parse([f"x={tmp_path}/libx.so:MODE=1"], known_allocators(tmp_path, tmp_path / "none"))
    assert given.variables == {"MODE": "1"}
    assert str(tmp_path) not in str(given.record())


def test_versions_tell_builds_apart(tmp_path: Path) -> None:
    known = known_allocators(tmp_path, tmp_path / "none")
    (tmp_path / "liba.so").write_bytes(b"one")
    (tmp_path / "libb.so").write_bytes(b"two")
    one, two = parse([f"a={tmp_path}/liba.so", f"b={tmp_path}/libb.so"], known)
    assert one.version != two.version


def test_unknown_allocators_are_refused(tmp_path: Path) -> None:
    known = known_allocators(tmp_path, tmp_path / "none")
    with pytest.raises(ValueError, match="no allocator 'nonsense'"):
        parse(["nonsense"], known)
    with pytest.raises(ValueError, match="no library"):
        parse(["x=/nowhere.so"], known)


def test_an_engine_for_local_memory_is_spared_remote_frees() -> None:
    local = {**KNOWN, "hmalloc-local": Allocator("hmalloc-local", None)}
    remote = Workload("r", ("r",), TIME, ("papers",), ("remote-frees",), paper="hmalloc")
    own = Workload("l", ("l",), TIME, ("papers",), paper="hmalloc")
    names = {i.workload.name: [a.name for a in i.allocators] for i in make_plan("papers", [remote, own], local, 2)}
    assert "hmalloc-local" in names["l"]
    assert "hmalloc-local" not in names["r"]
    assert "hmalloc" in names["r"]
