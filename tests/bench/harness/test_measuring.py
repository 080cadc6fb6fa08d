# SPDX-License-Identifier: MIT
"""Measuring with real processes: measured_run, one sample, a driver of a real program, counting instructions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import count, sampling
from harness.allocators import Allocator, libc
from harness.count import CountError, golden_pair, instructions_each
from harness.loaded import bindings_in, ends_of, fault_of_bindings, fault_of_mapping
from harness.results import CRASHED, HUNG, MISSING, OK, WRONG_ALLOCATOR, Case
from harness.sampling import Bench, take
from harness.workload import CPU_NS, CPU_S, Metric, Workload

GLIBC = Allocator("glibc", None)
REPLACE = Workload("replace", ("random_replace", "--threads", "{threads}"), (Metric(CPU_NS, "time"),), ())
USED = {"wall_s", "user_s", "system_s", "rss_peak_kib", "minor_faults", "major_faults"}
USED |= {"voluntary_switches", "involuntary_switches"}


def measured_run(build: Path, folder: Path, *command: str) -> tuple[int, dict]:
    done = subprocess.run([build / "bench/measured_run", folder / "result", "-", *command], check=False)
    return done.returncode, json.loads((folder / "result").read_text())


def test_measured_run_ends_as_the_command_did(build: Path, tmp_path: Path) -> None:
    assert measured_run(build, tmp_path, "sh", "-c", "exit 7")[0] == 7
    status, used = measured_run(build, tmp_path, "sh", "-c", "kill -SEGV $$")
    assert status == used["status"] == 128 + signal.SIGSEGV
    assert set(used) >= USED


def test_measured_run_hands_a_polite_end_on(build: Path, tmp_path: Path) -> None:
    command = [build / "bench/measured_run", tmp_path / "result", "-", "sh", "-c", "echo up; exec sleep 60"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM


def test_memory_over_time_includes_children_and_has_few_points(build: Path, tmp_path: Path) -> None:
    hold = "import time; block = bytearray(60 << 20); time.sleep(0.5)"
    _, used = measured_run(build, tmp_path, "sh", "-c", f"{sys.executable} -c '{hold}'; true")
    times = [at for at, _ in used["rss"]]
    assert times == sorted(times)
    assert 3 <= len(times) <= 200
    assert max(kib for _, kib in used["rss"]) > 60 << 10
    assert used["rss_peak_kib"] > 60 << 10


def test_a_sample_has_the_programs_figures_and_the_kernels(build: Path) -> None:
    sample = take(Bench(build, shrink=100), REPLACE, Case("replace", 2), GLIBC, 0, check=True)
    assert sample.status == OK, sample.detail
    assert set(sample.values) >= USED | {"ops", "seconds", "cpu_seconds"}
    assert sample.checksum
    assert REPLACE.metrics[0].value(sample.values) > 0


def test_a_sample_under_a_preloaded_allocator_is_proven_to_be_its(build: Path) -> None:
    library = Path(os.environ["FREEWAY_LIB"])
    sample = take(Bench(build, shrink=100), REPLACE, Case("replace", 1), Allocator("freeway", library), 0, check=True)
    assert sample.status == OK, sample.detail


def test_a_library_without_malloc_is_the_wrong_allocator(build: Path, fakes: Path) -> None:
    idle = Allocator("idle", fakes / "libfake_idle.so")
    sample = take(Bench(build, shrink=100), REPLACE, Case("replace", 1), idle, 0, check=True)
    assert sample.status == WRONG_ALLOCATOR
    assert "libc" in sample.detail


def test_a_library_that_the_loader_refuses_is_the_wrong_allocator(build: Path, tmp_path: Path) -> None:
    (tmp_path / "libbad.so").write_text("not a library")
    bad = Allocator("bad", tmp_path / "libbad.so")
    sample = take(Bench(build, shrink=100), REPLACE, Case("replace", 1), bad, 0, check=False)
    assert sample.status == WRONG_ALLOCATOR
    assert "cannot be preloaded" in sample.detail


def test_a_program_that_refuses_its_arguments_is_reported(build: Path) -> None:
    wrong = Workload("wrong", ("random_replace", "--threads", "none"), REPLACE.metrics, ())
    sample = take(Bench(build), wrong, Case("wrong"), GLIBC, 0, check=False)
    assert sample.status == CRASHED
    assert "exit status 2" in sample.detail


def test_what_is_kept_of_a_failure_names_no_folder_of_this_machine(build: Path) -> None:
    absent = Workload("absent", ("absent_program",), REPLACE.metrics, ())
    sample = take(Bench(build), absent, Case("absent"), GLIBC, 0, check=False)
    assert (sample.status, str(build) in sample.detail) == (CRASHED, False)
    assert "absent_program" in sample.detail


def test_chance_options_of_allocators_do_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREEWAY_RSEQ", "0")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    monkeypatch.setenv("LD_PRELOAD", "something.so")
    environment = Allocator("x", None, {"FREEWAY_RSEQ": "1"}).environment()
    assert environment["FREEWAY_RSEQ"] == "1"
    assert not {"MALLOC_ARENA_MAX", "LD_PRELOAD"} & set(environment)


def test_bindings_are_read_from_the_loaders_report() -> None:
    report = (
        "  7:\tbinding file /nowhere/x [0] to /nowhere/liba.so [0]: normal symbol `malloc' [GLIBC_2.2.5]\n"
        "  7:\tbinding file /nowhere/x [0] to /nowhere/libc.so.6 [0]: normal symbol `malloc_trim' [GLIBC_2.2.5]\n"
        "  7:\tbinding file /nowhere/libb.so [0] to /nowhere/libc.so.6 [0]: normal symbol `malloc'\n"
    )
    assert bindings_in(report) == {"/nowhere/x": {"/nowhere/liba.so"}, "/nowhere/libb.so": {"/nowhere/libc.so.6"}}


def test_a_binding_to_the_program_goes_where_the_program_goes() -> None:
    # What the loader reports of a program at a fixed address that takes malloc's address.
    bindings = {"program": {"program", "liba"}, "libc": {"program"}, "liba": {"program"}, "libz": {"liba"}}
    assert [ends_of(caller, bindings, "liba") for caller in bindings] == [{"liba"}] * 4
    # The same where the way ends elsewhere: in glibc, whose own calls may go through the program, or in a malloc that
    # the program has itself.
    bindings = {"program": {"program", "libc"}, "libc": {"program"}, "libz": {"libc"}}
    assert [ends_of(caller, bindings, "liba") for caller in bindings] == [{"libc"}] * 3
    assert ends_of("libz", {"program": {"program", "libc"}, "libz": {"program"}}, "liba") == {"libc"}
    assert ends_of("libz", {"program": {"program"}, "libz": {"program"}}, "liba") == {"program"}


def test_one_process_that_goes_elsewhere_is_found(tmp_path: Path) -> None:
    line = "  7:\tbinding file /bin/x [0] to {} [0]: normal symbol `malloc'\n"
    (tmp_path / "bindings.1").write_text(line.format("/lib/liba.so"))
    assert fault_of_bindings(tmp_path / "bindings", Path("/lib/liba.so")) == ""
    (tmp_path / "bindings.2").write_text(line.format("/lib/libc.so.6"))
    assert "malloc of x is libc.so.6's" in fault_of_bindings(tmp_path / "bindings", Path("/lib/liba.so"))
    assert "bound no malloc" in fault_of_bindings(tmp_path / "elsewhere", Path("/lib/liba.so"))


def test_a_library_that_was_never_mapped_is_a_fault_unless_the_run_was_too_short() -> None:
    assert "liba.so was not mapped" in fault_of_mapping(False, 1.0, Path("/x/liba.so"))
    assert fault_of_mapping(False, 0.01, Path("/x/liba.so")) == ""
    assert fault_of_mapping(True, 1.0, Path("/x/liba.so")) == ""
    assert fault_of_mapping(False, 1.0, None) == ""


# --- Drivers of real programs ----------------------------------------------------------------------------------------

DRIVER = """
import sys
from harness.real_program import missing, report, run, server
if "--absent" in sys.argv:
    missing("nothing is installed")
used = run([sys.executable, "-c", "import os; block = bytearray(40 << 20); print(os.environ.get('LD_PRELOAD'))"])
print("chatter")
report(ops=7, used=used, checksum=used.stdout_digest(), preloads=float("{expected}" in used.stdout))
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver in the place where the laboratory looks for it."""
    path = tmp_path / "driver.py"
    path.write_text(DRIVER.replace("{expected}", str(libc())))
    monkeypatch.setattr(sampling.Bench, "program", lambda _bench, _workload: path)
    return path


@pytest.mark.usefixtures("driver")
def test_a_driver_reports_the_real_programs_use_not_its_own(build: Path) -> None:
    real = Workload("real", ("real/driver.py",), (Metric(CPU_S, "CPU time", "s"),), ("real",))
    sample = take(Bench(build), real, Case("real"), GLIBC, 0, check=True)
    assert sample.status == OK, sample.detail
    assert sample.values["ops"] == 7
    assert sample.values["preloads"] == 1  # glibc too: some programs are linked with another malloc
    assert sample.values["rss_peak_kib"] > 40 << 10
    assert set(sample.values) >= USED
    assert sample.rss
    assert real.metrics[0].value(sample.values) > 0


@pytest.mark.usefixtures("driver")
def test_a_driver_whose_program_goes_to_another_malloc_is_found_out(build: Path, fakes: Path) -> None:
    real = Workload("real", ("real/driver.py",), (Metric(CPU_S, "CPU time", "s"),), ("real",))
    sample = take(Bench(build), real, Case("real"), Allocator("idle", fakes / "libfake_idle.so"), 0, check=True)
    assert sample.status == WRONG_ALLOCATOR


@pytest.mark.usefixtures("driver")
def test_a_real_program_that_is_not_installed_is_missing(build: Path) -> None:
    real = Workload("real", ("real/driver.py", "--absent"), (Metric(CPU_S, "CPU time", "s"),), ("real",))
    sample = take(Bench(build), real, Case("real"), GLIBC, 0, check=False)
    assert (sample.status, sample.detail) == (MISSING, "nothing is installed")


def test_nothing_is_left_of_a_program_that_hangs(build: Path, fakes: Path, tmp_path: Path) -> None:
    hanging = Allocator("hanging", fakes / "libfake_hanging.so")
    marked = Workload("marked", ("random_replace", "--mark", str(tmp_path)), REPLACE.metrics, ())
    sample = take(Bench(build, shrink=100, timeout_s=1), marked, Case("marked"), hanging, 0, check=False)
    assert sample.status == HUNG
    assert all_end(lambda: [p for p in Path("/proc").glob("[0-9]*") if str(tmp_path) in command_line(p)])


def all_end(running: Callable[[], list[Path]]) -> bool:
    """Whether none of them is left soon: what was killed may need a moment to go."""
    deadline = time.monotonic() + 30
    while running() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not running()


def command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""  # ended meanwhile


# --- Counting --------------------------------------------------------------------------------------------------------

VALGRIND = """#!/bin/sh
# 1000 to start with; 40 for each pair of malloc and free, 11 of them in the loop.
for kind in "$@"; do :; done
eval kind=\\${$(($# - 1))}; eval pairs=\\${$#}
case $kind in nothing*) each=11 ;; *) each=40 ;; esac
echo "==1== Collected : $((1000 + each * pairs))" >&2
"""


def test_instructions_are_counted_without_start_and_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "valgrind").write_text(VALGRIND)
    (tmp_path / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert instructions_each(Path("pair_count"), "pair-32", GLIBC) == 40 - 11 + count.RETURNS


def test_an_allocator_that_fails_under_valgrind_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "valgrind").write_text("#!/bin/sh\necho cannot >&2; exit 1\n")
    (tmp_path / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(CountError, match="failed under valgrind"):
        instructions_each(Path("pair_count"), "pair-32", GLIBC)


def test_the_flagships_pair_is_the_golden_one() -> None:
    golden = json.loads((count.ROOT / "tests/whole/golden/fast_path.json").read_text())
    expected = golden.get(os.uname().machine)
    assert golden_pair() == (expected["malloc"] + expected["free"] if expected else None)
