# SPDX-License-Identifier: MIT
"""Builds what the machines of the matrix run: for every C library, or for musl, or statically linked."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from emulated import ROOT
from roots import MUSL_SUITE, Architecture, link_folder, package

HERE = Path(__file__).resolve().parent
WHOLE = ROOT / "tests/whole"
# The command, as command/CMakeLists.txt has it: all but `freeway profile`, which is a program of its own.
COMMAND_PARTS = (".", "heap", "leaks")
INSTALLED = {"LIBRARY": "/libfreeway.so.0", "ENGINES": "", "LIBEXEC": ""}
NO_BUILTINS = [f"-fno-builtin-{name}" for name in ("malloc", "calloc", "realloc", "free")]
# libstdc++.a is that of the compiler, which knows a newer glibc than the programs are linked with.
OLD_GLIBC_HAS_NOT = """\
#include <stdlib.h>
__attribute__((visibility("hidden"))) char __libc_single_threaded;
__attribute__((visibility("hidden"))) unsigned arc4random(void) { abort(); }
"""


def run(command: list[str | Path]) -> None:
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


@dataclass(frozen=True)
class Builder:
    """Compiles for an architecture, into `work`."""

    architecture: Architecture
    work: Path

    @property
    def prefix(self) -> str:
        return "aarch64-linux-gnu-" if self.architecture.processor == "aarch64" else ""

    @functools.cached_property
    def library(self) -> Path:
        """The folder with the libraries and the parts of the command under test."""
        if not self.prefix:
            return Path(os.environ.get("FREEWAY_BUILD_DIR", ROOT / "build/release")).resolve()
        folder = self.work / "library"
        run(["cmake", "--preset", "aarch64", "-S", ROOT, "-B", folder, "-DFREEWAY_BUILD_TESTS=OFF"])
        targets = ["freeway_shared", "freeway_static", "freeway_substrate"]
        run(["cmake", "--build", folder, "-j2", "--target", *targets])
        return folder

    def compile(self, compiler: str, name: str, *arguments: str | Path) -> Path:
        output = self.work / "programs" / name
        output.parent.mkdir(exist_ok=True)
        flags = ["-O2", "-g", *NO_BUILTINS, "-I", ROOT / "include", "-I", ROOT, "-I", ROOT / "src"]
        language = ["-std=c++20"] if compiler == "g++" else ["-std=gnu11"]
        run([self.prefix + compiler, *language, *flags, *arguments, "-o", output])
        return output

    def for_every_glibc(self, name: str, *sources: str | Path) -> Path:
        """Linked with the oldest glibc, and libstdc++ within: runs under all of them."""
        link = link_folder(self.architecture, self.work)
        missing = self.work / "old_glibc_has_not.c"
        missing.write_text(OLD_GLIBC_HAS_NOT)
        supplement = self.compile("gcc", "old_glibc_has_not.o", "-c", missing)
        libraries = ["-Wl,-Bstatic", "-lstdc++", "-Wl,-Bdynamic", "-lm", "-lpthread", "-ldl", "-lc", "-lgcc_s", "-lgcc"]
        return self.compile(
            "g++" if str(sources[0]).endswith(".cc") else "gcc",
            name,
            *("-B", link, "-L", link, "-nodefaultlibs", *sources, "-Wl,--no-as-needed", *self.shared),
            *("-Wl,--as-needed", supplement, *libraries, "-Wl,--allow-shlib-undefined", f"-Wl,-rpath-link,{link}"),
        )

    def for_glibc_here(self, name: str, source: Path) -> Path:
        """Linked with the glibc of this system: runs under that and newer ones."""
        return self.compile("g++", name, source, "-static-libstdc++", "-Wl,--no-as-needed", *self.shared)

    def for_musl(self, name: str, source: Path, *, static: bool) -> Path:
        """Linked with musl, by this compiler: musl's headers and files instead of glibc's."""
        place, _ = package("musl-dev", MUSL_SUITE, self.architecture, self.work)
        musl = f"{self.architecture.processor}-linux-musl"
        headers, link = place / "usr/include" / musl, place / "usr/lib" / musl
        own = subprocess.run(
            [f"{self.prefix}gcc", "-print-file-name=include"], check=True, capture_output=True, text=True
        )
        start = [link / ("crt1.o" if static else "Scrt1.o"), link / "crti.o"]
        common = ["-nostdinc", "-isystem", headers, "-isystem", own.stdout.strip(), "-nostdlib", *start, source]
        if static:
            keys = [f"-Wl,-u,pthread_{name}" for name in ("key_create", "key_delete", "setspecific")]  # docs/limits.md
            end = ["-static", "-no-pie", *keys, self.library / "libfreeway.a", link / "libc.a", "-lgcc"]
        else:
            loader, _ = package("musl", MUSL_SUITE, self.architecture, self.work)
            (libc,) = (path for path in loader.rglob("libc.so") if path.is_file())
            dynamic = [f"-Wl,--dynamic-linker=/{self.architecture.musl_loader}", "-Wl,--allow-shlib-undefined"]
            end = [
                "-pie",
                "-fPIE",
                *dynamic,
                "-Wl,--no-as-needed",
                *self.shared,
                "-L",
                libc.parent,
                "-l:libc.so",
                "-lgcc",
            ]
        return self.compile("gcc", name, *common, *end, link / "crtn.o")

    @property
    def shared(self) -> list[str | Path]:
        return [self.library / "libfreeway.so", "-Wl,-rpath,/programs"]


def build_all(architecture: Architecture, work: Path) -> dict[str, bytes]:
    """The files of /programs."""
    builder = Builder(architecture, work)
    library = builder.library
    command = [file for part in COMMAND_PARTS for file in sorted((ROOT / "command" / part).glob("*.cc"))]
    installed = [f'-DFREEWAY_INSTALLED_{what}="/programs{file}"' for what, file in INSTALLED.items()]
    programs = [
        builder.for_every_glibc(
            "freeway", *command, "-I", ROOT / "command", "-I", ROOT, *installed, library / "libfreeway_substrate.a"
        ),
        builder.for_every_glibc("vfork_test", WHOLE / "fork/vfork_test.cc"),
        builder.for_every_glibc("first_call", HERE / "first_call.c"),
        builder.for_every_glibc("every_function", WHOLE / "machines/every_function.c"),
        builder.for_every_glibc("heap_program", HERE / "heap_program.c"),
        builder.for_musl("first_call.musl", HERE / "first_call.c", static=False),
        builder.for_musl("every_function.musl", WHOLE / "machines/every_function.c", static=False),
        builder.for_musl("heap_program.musl", HERE / "heap_program.c", static=False),
        builder.for_musl("first_call.static", HERE / "first_call.c", static=True),
        builder.for_musl("heap_program.static", HERE / "heap_program.c", static=True),
    ]
    shutil.copy(library / "libfreeway.so", work / "programs/libfreeway.so.0")
    programs.append(work / "programs/libfreeway.so.0")
    if architecture.processor == "x86_64":
        programs.append(builder.for_glibc_here("every_section", ROOT / "tests/cache/rseq/every_section_test.cc"))
        disassemble = ["objdump", "-d", "-w", "--no-show-raw-insn", "-j", ".text", programs[-2]]
        said = subprocess.run(disassemble, check=True, capture_output=True)
        (work / "programs/libfreeway.disassembly").write_bytes(said.stdout)
        programs.append(work / "programs/libfreeway.disassembly")
    for program in programs:
        if program.suffix != ".disassembly":
            run([f"{builder.prefix}strip", "-g", program])
    return {f"programs/{program.name}": program.read_bytes() for program in programs}


def build_init(architecture: Architecture, work: Path) -> bytes:
    """The first process; the glibc that it is linked with is that of this system, statically."""
    return Builder(architecture, work).compile("gcc", "init", "-static", HERE / "init.c").read_bytes()
