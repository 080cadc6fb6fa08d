# SPDX-License-Identifier: MIT
#
# jemalloc.py: jemalloc's tests of what programs call: malloc's family, mallocx's family, fork, malloc_stats_print. They
# run with Debian's jemalloc, which they are linked with, and with Freeway preloaded and its compat/jemalloc in the
# place of jemalloc, as compat/jemalloc/README.md says. Each runs three times, as jemalloc has it (twice from within a
# hook of its own, which Freeway has not: there these are plain repetitions).
#
# Of test/integration all run but those of what Freeway does not have: arenas that hold blocks (MALLOCX_ARENA,
# thread_arena), extent hooks (extent), thread caches that can be turned off (thread_tcache_enabled), slabs
# (slab_sizes), counters of a thread (allocated, infallible_new_true), and smallocx, which only experimental builds of
# jemalloc have. Of test/unit those run that call malloc and can be linked without jemalloc's inner parts.
#
# The tests ask for jemalloc's size classes: jemalloc_sizes.c answers, the same way for both.
"""jemalloc's own tests, on jemalloc and on Freeway with its jemalloc functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from suite import FAILED, PASSED, SKIPPED, Outcomes, Suite
from suite import run as run_suite  # it says where the others are

# isort: split
from debian_source import fetch
from emulated import require_tools
from preload import run, succeed
from shim import REFERENCE, stand_in, with_variables

HERE = Path(__file__).resolve().parent
INTEGRATION = (
    "aligned_alloc",
    "malloc",
    "mallocx",
    "overflow",
    "posix_memalign",
    "rallocx",
    "sdallocx",
    "xallocx",
    "cpp/basic",
    "cpp/infallible_new_false",
)
UNIT = ("SFMT", "fork", "mq", "mtx", "stats_print")
# What the tests take from jemalloc's own build.
SUPPORT = ("nstime", "malloc_io", "ticker", "test_hooks")
TEST_SUPPORT = ("SFMT", "btalloc", "btalloc_0", "btalloc_1", "math", "mtx", "sleep", "test", "thd", "timer")
WRAPPED = ("mallctl", "mallctlnametomib", "mallctlbymib")
VERDICTS = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}


def reference() -> Path:
    """Debian's jemalloc."""
    (found,) = Path("/usr/lib").glob("*/libjemalloc.so.2")
    return found


def build(work: Path) -> None:
    """One program of each file."""
    require_tools("gcc", "g++", "make")
    done = work / "built"
    if done.exists():
        return
    source = fetch(work, "jemalloc")
    configured, objects, programs = (work / name for name in ("configured", "objects", "programs"))
    for place in (configured, objects, programs):
        place.mkdir(exist_ok=True)
    # As Debian's package; it makes the headers.
    options = ["--with-lg-page=12", "--with-lg-hugepage=21", "--enable-prof", "--with-version=5.3.0-0-g0"]
    succeed([str(source / "configure"), *options], preload=False, cwd=configured, timeout=900)
    # It renames what is within jemalloc, of which these programs have their own.
    (configured / "include/jemalloc/internal/private_namespace.h").touch()
    includes = [configured / "include", source / "include", source / "test/include", configured / "test/include"]
    flags = ["-O2", "-g", "-w", "-fno-builtin", "-D_GNU_SOURCE", "-D_REENTRANT", *(f"-I{each}" for each in includes)]
    c = ["gcc", "-std=gnu11", "-DJEMALLOC_INTEGRATION_TEST", *flags]
    cxx = ["g++", "-std=gnu++14", "-DJEMALLOC_INTEGRATION_CPP_TEST", *flags]
    files = [source / f"src/{name}.c" for name in SUPPORT] + [source / f"test/src/{name}.c" for name in TEST_SUPPORT]
    for file in (*files, HERE / "jemalloc_sizes.c"):
        made = objects / ("_".join(file.parts[-3:]) + ".o")
        succeed([*c, "-c", str(file), "-o", str(made)], preload=False)
    wraps = [f"-Wl,--wrap={name}" for name in WRAPPED]
    linked = [*map(str, objects.glob("*.o")), str(reference()), *wraps, "-pthread", "-lm"]
    for file in sources(source):
        compiler = c if file.suffix == ".c" else cxx
        succeed([*compiler, str(file), *linked, "-o", str(programs / file.stem)], preload=False)
    done.touch()


def sources(source: Path) -> list[Path]:
    """The files of tests."""
    wanted = [f"integration/{name}" for name in INTEGRATION] + [f"unit/{name}" for name in UNIT]
    return [next((source / "test").glob(f"{name}.c*")) for name in wanted]


def outcomes(work: Path, preload: bool, _names: Sequence[str] | None) -> Outcomes:
    """All of them: they take a minute."""
    found: Outcomes = {}
    for file in sources(work / "source"):
        variables = stand_in() if preload else {}
        said = run([str(work / "programs" / file.stem)], preload=preload, cwd=work, env=variables, timeout=600)
        repeated: Counter[str] = Counter()
        for test, verdict in re.findall(r"^(\w+ \(.+\)): (pass|fail|skip)$", said.out + said.err, re.MULTILINE):
            repeated[test] += 1
            count = f" #{repeated[test]}" if repeated[test] > 1 else ""
            found[f"{file.stem}: {test}{count}"] = VERDICTS[verdict]
        found[f"{file.stem} ends"] = PASSED if said.status >= 0 else FAILED
    return found


def proves(work: Path) -> list[str]:
    """A program whose malloc must be Freeway's. Were its mallocx jemalloc's, those of jemalloc.txt would pass."""
    return with_variables(stand_in(), [str(work / "programs/malloc")])


if __name__ == "__main__":
    run_suite(Suite("jemalloc", build, outcomes, 135, proves, REFERENCE))
