# SPDX-License-Identifier: MIT
#
# recipes.py: where each peer comes from and how it is built: Debian's packages as they are; the newest of some from
# crates that carry the C or C++ sources (nothing of their Rust parts is built); and `locked`, ours.
"""One recipe for each peer."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from peers.workshop import (
    PEERS,
    Built,
    Recipe,
    RecipeError,
    Workshop,
    debian_version,
    output_of,
    system_library,
)

OPTIMISED = ("-O3", "-DNDEBUG", "-fPIC", "-shared", "-fno-builtin-malloc", "-ftls-model=initial-exec")
SCUDO_PACKAGE = "libclang-rt-19-dev"
# Flags of Scudo: a freed block waits until this much of others was freed after it. Off by default.
SCUDO_QUARANTINE = ("quarantine_size_kb=256", "thread_local_quarantine_size_kb=64", "quarantine_max_chunk_size=2048")
TCMALLOC_FLAGS = "-fno-canonical-system-headers -ftls-model=initial-exec -fno-builtin-malloc"


def crate_files(project: str) -> tuple[Path, ...]:
    """What says which sources a crate's peer is built from."""
    folder = PEERS / "crates" / project
    return (folder / "Cargo.toml", folder / "Cargo.lock")


# --- As Debian has them ----------------------------------------------------------------------------------------------


def glibc(_: Workshop) -> Built:
    """The malloc that programs have by themselves: nothing is preloaded."""
    version = output_of(["dpkg-query", "-W", "-f", "${Version}", "libc6"])
    if version:
        return Built(None, version, f"Debian libc6 {version}")
    words = output_of(["getconf", "GNU_LIBC_VERSION"]).split()
    return Built(None, words[-1] if words else "unknown", "the system's libc")


def scudo(*options: str) -> Callable[[Workshop], Built]:
    """LLVM's hardened allocator, a part of clang's run-time library. GWP-ASan, which guards one block in thousands, is
    off: what is seen must not be chance."""

    def take(_: Workshop) -> Built:
        full = debian_version(SCUDO_PACKAGE)
        pattern = f"lib/clang/*/lib/linux/libclang_rt.scudo_standalone-{os.uname().machine}.so"
        found = sorted(Path("/usr/lib/llvm-19").glob(pattern))
        if not found:
            raise RecipeError(f"{SCUDO_PACKAGE} has no {pattern}")
        variables = {"SCUDO_OPTIONS": ":".join(("GWP_ASAN_Enabled=false", *options))}
        upstream = re.split(r"[+~-]", full.rpartition(":")[2])[0]
        return Built(found[0], upstream, f"Debian {SCUDO_PACKAGE} {full}", variables)

    return take


def debian(package: str, file: str) -> Callable[[Workshop], Built]:
    """A library of a Debian package."""

    def take(_: Workshop) -> Built:
        full = debian_version(package)
        upstream = re.split(r"[+-]", full)[0]
        return Built(system_library(file), upstream, f"Debian {package} {full}")

    return take


# --- From crates -----------------------------------------------------------------------------------------------------


def crate_version(sources: Path) -> str:
    """The version in a crate's manifest."""
    match = re.search(r'^version = "([^"]+)"', (sources / "Cargo.toml").read_text(), re.MULTILINE)
    if match is None:
        raise RecipeError(f"{sources}/Cargo.toml has no version")
    return match[1].partition("+")[0]


def from_crate(sources: Path, library: Path, version: str, upstream: str) -> Built:
    """A library built from a crate's sources."""
    return Built(library, version, f"crate {sources.name} {crate_version(sources)} ({upstream} {version})")


def mimalloc(generation: str, *more: str) -> Callable[[Workshop], Built]:
    """mimalloc v2 or v3: one crate has both. `more`: flags of the compiler."""

    def build(workshop: Workshop) -> Built:
        sources = workshop.crate("mimalloc", "libmimalloc-sys")
        code = sources / "c_src/mimalloc" / generation
        match = re.search(r"#define MI_MALLOC_VERSION\s+(\d+)", (code / "include/mimalloc.h").read_text())
        if match is None:
            raise RecipeError("mimalloc.h has no MI_MALLOC_VERSION")
        number = int(match[1])  # 30302: 3.3.2
        library = workshop.folder / f"libmimalloc-{generation}.so"
        defines = ("-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT", "-fvisibility=hidden")
        includes = (f"-I{code}/include", f"-I{code}/src")
        program = ("gcc", *OPTIMISED, *defines, *more, *includes, code / "src/static.c", "-o", library)
        workshop.run(*program, "-lpthread", "-latomic")
        return from_crate(sources, library, f"{number // 10000}.{number // 100 % 100}.{number % 100}", "mimalloc")

    return build


def jemalloc(*options: str) -> Callable[[Workshop], Built]:
    """jemalloc; the crate keeps the generated `configure` beside the sources. `options`: configure's."""

    def build(workshop: Workshop) -> Built:
        return configured_jemalloc(workshop, options)

    return build


def configured_jemalloc(workshop: Workshop, options: tuple[str, ...]) -> Built:
    """The same, once."""
    sources = workshop.crate("jemalloc", "tikv-jemalloc-sys")
    folder = workshop.fresh("source")
    shutil.copytree(sources / "jemalloc", folder, dirs_exist_ok=True)
    shutil.copytree(sources / "configure", folder, dirs_exist_ok=True)
    full = next(iter(re.findall(r"\+(\S+?)\"", (sources / "Cargo.toml").read_text())), "5.3.1-0-g0")
    (folder / "configure").chmod(0o755)
    flags = ("CFLAGS=-O3 -DNDEBUG", "CXXFLAGS=-O3 -DNDEBUG")
    workshop.run("./configure", f"--with-version={full}", *options, *flags, cwd=folder)
    workshop.run("make", f"-j{workshop.jobs}", "build_lib_shared", cwd=folder)
    library = workshop.folder / "libjemalloc.so.2"
    shutil.copy(folder / "lib/libjemalloc.so.2", library)
    return from_crate(sources, library, full.partition("-")[0], "jemalloc")


def snmalloc(target: str) -> Callable[[Workshop], Built]:
    """snmalloc, by clang as its authors do; the crate has the whole CMake project, which has several `target`s."""

    def build(workshop: Workshop) -> Built:
        sources = workshop.crate("snmalloc", "snmalloc-sys")
        folder = workshop.fresh("cmake")
        options = ("-DCMAKE_BUILD_TYPE=Release", "-DSNMALLOC_BUILD_TESTING=OFF")
        compilers = ("-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_C_COMPILER=clang")
        workshop.run("cmake", "-S", sources / "upstream", "-B", folder, "-G", "Ninja", *options, *compilers)
        workshop.run("cmake", "--build", folder, "-j", str(workshop.jobs), "--target", target)
        library = workshop.folder / f"lib{target}.so"
        shutil.copy(folder / library.name, library)
        return from_crate(sources, library, crate_version(sources), "snmalloc")

    return build


def rpmalloc(workshop: Workshop) -> Built:
    """rpmalloc of the 1.4 line."""
    sources = workshop.crate("rpmalloc", "rpmalloc-sys")
    code = sources / "rpmalloc/rpmalloc"
    library = workshop.folder / "librpmalloc.so"
    defines = ("-std=gnu11", "-D_GNU_SOURCE", "-DENABLE_PRELOAD=1", "-DENABLE_OVERRIDE=1")
    workshop.run("gcc", *OPTIMISED, *defines, code / "rpmalloc.c", "-o", library, "-lpthread")
    version = (sources / "rpmalloc/CHANGELOG").read_text().split()[0]
    return from_crate(sources, library, version, "rpmalloc")


def tcmalloc(workshop: Workshop) -> Built:
    """Google's TCMalloc: the files that the crate's build.rs names, with TCMalloc's malloc for its bridge."""
    sources = workshop.crate("tcmalloc", "libtcmalloc-sys", needs=(1, 85))
    named = re.findall(r'"(c_src/[^"]+\.(?:cc|S))"', (sources / "build.rs").read_text())
    files = [sources / name for name in named if "bridge" not in name]
    files.append(sources / "c_src/tcmalloc/tcmalloc/tcmalloc.cc")
    folder = workshop.fresh("objects")
    library = workshop.folder / "libtcmalloc.so"
    flags = f"-std=c++17 -O2 -DNDEBUG -DNOMINMAX -DTCMALLOC_INTERNAL_8K_PAGES -fPIC -w {TCMALLOC_FLAGS}"
    includes = f"-I{sources}/c_src/abseil-cpp -I{sources}/c_src/tcmalloc"
    objects = [f"{i}.o" for i in range(len(files))]
    lines = [
        f"rule compile\n  command = g++ {flags} {includes} -c $in -o $out",
        "rule link\n  command = g++ -shared -o $out $in -lpthread -Wl,-z,nodelete",
        *(f"build {made}: compile {file}" for made, file in zip(objects, files, strict=True)),
        f"build {library}: link {' '.join(objects)}",
    ]
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")
    workshop.run("ninja", "-j", str(workshop.jobs), cwd=folder)
    shutil.rmtree(folder)
    # Its caches are per CPU, by rseq, if libc leaves the registration to it; else per thread, and twice as slow.
    variables = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
    version = crate_version(sources)
    return Built(library, version, f"crate libtcmalloc-sys {version} (TCMalloc, per-CPU caches)", variables)


# --- Ours ------------------------------------------------------------------------------------------------------------


def locked(workshop: Workshop) -> Built:
    """One mutex around everything: what the papers' libc columns stand for."""
    library = workshop.folder / "liblocked.so"
    flags = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fno-builtin", "-fno-exceptions", "-fno-rtti")
    links = ("-fvisibility=hidden", "-nodefaultlibs", "-Wl,--no-undefined")
    workshop.run("g++", *flags, *links, PEERS / "locked.cc", "-o", library, "-lc")
    return Built(library, "1", "bench/peers/locked.cc")


RECIPES: tuple[Recipe, ...] = (
    Recipe("glibc", glibc),
    Recipe("locked", locked, (PEERS / "locked.cc",)),
    Recipe("mimalloc-2.0", debian("libmimalloc2.0", "libmimalloc.so.2")),
    Recipe("jemalloc-5.3.0", debian("libjemalloc2", "libjemalloc.so.2")),
    Recipe("tcmalloc-2.10", debian("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4")),
    Recipe("tbbmalloc", debian("libtbbmalloc2", "libtbbmalloc_proxy.so.2")),
    Recipe("mimalloc2", mimalloc("v2"), crate_files("mimalloc")),
    Recipe("mimalloc3", mimalloc("v3"), crate_files("mimalloc")),
    Recipe("snmalloc", snmalloc("snmallocshim"), crate_files("snmalloc")),
    Recipe("jemalloc", jemalloc(), crate_files("jemalloc")),
    Recipe("rpmalloc", rpmalloc, crate_files("rpmalloc")),
    Recipe("tcmalloc", tcmalloc, crate_files("tcmalloc")),
    # Hardened ones: for docs/attacks.md (tests/whole/attacks); the laboratory's suites leave them out.
    Recipe("scudo", scudo()),
    Recipe("scudo-quarantine", scudo(*SCUDO_QUARANTINE)),
    Recipe("mimalloc3-secure", mimalloc("v3", "-DMI_SECURE=4"), crate_files("mimalloc")),
    Recipe("snmalloc-checks", snmalloc("snmallocshim-checks"), crate_files("snmalloc")),
    # With heap profilers: for docs/profiles.md (bench/profilers); the laboratory's suites leave them out, too.
    Recipe("jemalloc-prof", jemalloc("--enable-prof"), crate_files("jemalloc")),
    Recipe("tcmalloc-2.10-prof", debian("libgoogle-perftools4", "libtcmalloc.so.4")),
)
