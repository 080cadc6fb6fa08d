# SPDX-License-Identifier: MIT
"""Runs glibc's malloc tests with glibc's malloc and with Freeway: only what differences.txt lists may fail."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests/whole/programs/
from preload import Outcome, check, environment, library, main, prove_preload, run
from proof import proof
from source import programs

HERE = Path(__file__).resolve().parent
DEBUG_LIBRARY = "libc_malloc_debug.so.0"  # glibc's, for MALLOC_CHECK_
# Its tests' own environments, as its malloc/Makefile has them.
CHECKED = {"MALLOC_CHECK_": "3", "LD_PRELOAD": DEBUG_LIBRARY}
ENVIRONMENTS = {
    "tst-malloc-check": CHECKED,
    "tst-malloc-usable": CHECKED,
    "tst-malloc-usable-tunables": {"GLIBC_TUNABLES": "glibc.malloc.check=3", "LD_PRELOAD": DEBUG_LIBRARY},
    "tst-mxfast": {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"},
}
TIMEOUT_FACTOR = "20"  # of glibc's own 20 s
VERDICTS = ("fails", "left out")


def read_differences() -> dict[str, dict[str, str]]:
    """Verdict -> program -> reason."""
    table: dict[str, dict[str, str]] = {verdict: {} for verdict in VERDICTS}
    for line in (HERE / "differences.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, verdict, reason = (cell.strip() for cell in line.split("|"))
            check(bool(reason), f"{name} has no reason")
            table[verdict][name] = reason
    return table


def run_test(program: Path, folder: Path, *, preload: bool) -> Outcome:
    """One of the programs; a library of glibc's that it wants preloaded comes after ours."""
    variables = {"TIMEOUTFACTOR": TIMEOUT_FACTOR, **ENVIRONMENTS.get(program.name, {})}
    ours = environment(preload).get("LD_PRELOAD", "")
    variables["LD_PRELOAD"] = " ".join(name for name in (ours, variables.get("LD_PRELOAD", "")) if name)
    return run([str(program)], preload=preload, cwd=folder, env=variables, timeout=600)


def glibc(folder: Path) -> None:
    """Each passes with glibc's malloc; with Freeway all do but those with a reason."""
    differences = read_differences()
    place, names = programs(set(differences["left out"]))
    expected = set(differences["fails"])
    faults = [f"differences.txt names {name}, of which there is no such test" for name in expected - set(names)]
    for name in names:
        plain, ours = (run_test(place / name, folder, preload=preload) for preload in (False, True))
        said = f"status {ours.status}: {(ours.out + ours.err)[-300:].strip()}"
        print(f"  {name}: {'passes' if ours.status == 0 else said}", flush=True)
        if plain.status != 0:
            faults.append(f"{name} fails with glibc's malloc: status {plain.status}: {(plain.out + plain.err)[-500:]}")
        elif (ours.status != 0) != (name in expected):
            faults.append(f"{name} was to {'fail' if name in expected else 'pass'}: {said}")
    prove_preload([str(place / "tst-calloc")], cwd=folder)
    proof("programs", "glibc's tests of malloc", "programs", len(names))
    print(f"{len(names)} programs under {library().name}, {len(expected)} known differences")
    check(not faults, "\n".join(faults))


if __name__ == "__main__":
    main(glibc)
