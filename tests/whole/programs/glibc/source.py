# SPDX-License-Identifier: MIT
"""glibc's malloc tests: their source from Debian's archive, and the programs built from it, in the build folder."""

from __future__ import annotations

import fcntl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "machines"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests/whole/programs/
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "suites"))
from debian_source import fetch
from emulated import MissingError, folder, output_of, require_tools
from preload import Skipped

HERE = Path(__file__).resolve().parent
RELEASE = "bookworm"  # its glibc is the one that differences.txt speaks of
WANTED = ("malloc", "support", "include", "sysdeps/generic", "test-skeleton.c")

# What the programs need of glibc's support library, and where they look for headers of glibc's own.
SUPPORT = (
    "check",
    "ignore_stderr",
    "oom_error",
    "scratch_buffer_grow",
    "support-xstat",
    "support_capture_subprocess",
    "support_copy_file",
    "support_copy_file_range",
    "support_paths",
    "support_record_failure",
    "support_shared_allocate",
    "support_subprocess",
    "support_test_compare_failure",
    "support_test_main",
    "support_test_verify_impl",
    "temp_file",
    "write_message",
    "xasprintf",
    "xcalloc",
    "xchdir",
    "xclose",
    "xdup2",
    "xfclose",
    "xfopen",
    "xfork",
    "xmalloc",
    "xmemstream",
    "xmmap",
    "xmunmap",
    "xopen",
    "xpipe",
    "xpoll",
    "xposix_spawn",
    "xposix_spawn_file_actions_addclose",
    "xposix_spawn_file_actions_adddup2",
    "xpthread_barrier_destroy",
    "xpthread_barrier_init",
    "xpthread_barrier_wait",
    "xpthread_barrierattr_destroy",
    "xpthread_barrierattr_init",
    "xpthread_barrierattr_setpshared",
    "xpthread_check_return",
    "xpthread_create",
    "xpthread_join",
    "xpthread_kill",
    "xsignal",
    "xsysconf",
    "xwaitpid",
)
HEADERS = {
    "array_length.h": "include/array_length.h",
    "libc-diag.h": "include/libc-diag.h",
    "malloc": "malloc",
    "malloc-alignment.h": "sysdeps/generic/malloc-alignment.h",
    "malloc-size.h": "sysdeps/generic/malloc-size.h",
    "scratch_buffer.h": "include/scratch_buffer.h",
    "support": "support",
}
EMPTY_HEADERS = ("config.h", "libc-config.h")
# Of more than one file.
PARTS = {name: [f"{name[:13]}-aux{name[13:]}"] for name in ("tst-interpose-nothread", "tst-interpose-thread")}


def compiler(source: Path, work: Path) -> list[str]:
    """The compiler with glibc's options, as far as its tests of malloc need them."""
    headers = work / "headers"
    headers.mkdir(exist_ok=True)
    for name, place in HEADERS.items():
        (headers / name).unlink(missing_ok=True)
        (headers / name).symlink_to(source / place)
    for name in EMPTY_HEADERS:
        (headers / name).touch()
    flags = ["-std=gnu11", "-O2", "-g", "-D_GNU_SOURCE", "-DTEST_NO_MALLOPT", "-w", "-include", str(HERE / "prelude.h")]
    return ["gcc", *flags, f"-I{headers}", f"-I{source / 'support'}"]


def build(source: Path, work: Path, names: list[str]) -> Path:
    """The folder with the programs."""
    programs, objects = work / "programs", work / "objects"
    for place in (programs, objects):
        place.mkdir(exist_ok=True)
    compile_with = compiler(source, work)
    archive = work / "support.a"
    archive.unlink(missing_ok=True)

    def compile_support(name: str) -> Path:
        made = objects / f"{name}.o"
        found = [place for place in (source / "support", source / "malloc") if (place / f"{name}.c").exists()]
        output_of([*compile_with, "-c", found[0] / f"{name}.c", "-o", made], work)
        return made

    def link(name: str) -> None:
        parts = [source / "malloc" / f"{part}.c" for part in (name, *PARTS.get(name, []))]
        output_of([*compile_with, *parts, archive, "-pthread", "-o", programs / name], work)

    with ThreadPoolExecutor() as workers:
        output_of(["ar", "rcs", archive, *workers.map(compile_support, SUPPORT)], work)
        list(workers.map(link, names))
    return programs


def tests_in(source: Path) -> list[str]:
    """All tests of malloc that the source has."""
    return sorted(path.stem for path in (source / "malloc").glob("*.c") if path.stem.startswith(("tst-", "mallocbug")))


def make(work: Path, left_out: set[str]) -> list[str]:
    """Makes the programs where they are not there yet; returns their names."""
    require_tools("gcc", "ar")
    source = fetch(work, "glibc", RELEASE, WANTED)
    names = [name for name in tests_in(source) if name not in left_out]
    done = work / "built"
    if not done.exists() or done.read_text().split() != names:
        build(source, work, names)
        done.write_text("\n".join(names))
    return names


def programs(left_out: set[str]) -> tuple[Path, list[str]]:
    """The folder of the programs, and their names. Skips the test where tools or the network are missing."""
    work = folder("glibc_tests")
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # both modes' tests want them
        try:
            return work / "programs", make(work, left_out)
        except MissingError as reason:
            raise Skipped(str(reason)) from None
