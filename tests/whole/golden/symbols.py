# SPDX-License-Identifier: MIT
"""Compares the symbols of libfreeway.so, or of libfreeway-shared.so, with the golden lists.

    symbols.py exported    what other objects can bind to: a name more is a clash waiting, a name less a broken program
    symbols.py undefined   what the library needs: libc only; nothing of threads, of the C++ run-time, of libatomic
    symbols.py versions    which C libraries it loads with: no symbol of glibc's that came after 2.17
    symbols.py program     that --library, a C program with libfreeway.a, has none of C++'s operators, which would hide
                           those that its libraries bring
    symbols.py data        how much writable memory the library brings along in its file: next to nothing, since every
                           process that loads it has a copy; the heap itself must begin as zeros

A paper's engine ($FREEWAY_TEST_ENGINE) is compared with the flagship's lists, but for what ENGINES says.
libfreeway-shared.so (--shared-heap) has a list of names of its own, and needs no more than libfreeway.so.

The library is $FREEWAY_LIB or --library. --update writes the list instead of comparing. Needs readelf (binutils).
"""

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
HEADERS = ROOT / "include" / "freeway"
MOST_DATA = 8 * 1024


@dataclass(frozen=True)
class Engine:
    """How an engine's symbols differ from the flagship's."""

    header: str | None = None  # of its own names
    vfork: bool = False  # it uses rseq, so it must know of vfork's children
    malloc: bool = True


ENGINES = {
    None: Engine(header="debug.h", vfork=True),
    "michael": Engine(),
    "lfmalloc": Engine(vfork=True),
    "streamflow": Engine(),
    "hmalloc": Engine(header="hmalloc.h"),
    "nbbs": Engine(header="buddy.h"),
}
SHARED_HEAP = Engine(header="shared.h", malloc=False)

# Whoever needs one of these is not lock-free, or not usable in a plain C program. A weak reference is not a need: it is
# null where the program does not bring the symbol itself.
FORBIDDEN_NEEDS = re.compile(
    r"^(pthread_|thrd_|mtx_|call_once|sem_|futex|__tls_get_addr|__cxa_|__gxx_|_Unwind_|_ZSt|_ZNSt|_ZN|__atomic_|__cxa_guard)"
)
ALLOWED_LIBRARIES = {"libc.so.6"}
NEWEST_GLIBC = (2, 17)


def readelf(library: Path, *options: str) -> str:
    return subprocess.run(["readelf", "-W", *options, str(library)], check=True, capture_output=True, text=True).stdout


def dynamic_symbols(library: Path) -> tuple[list[str], list[str]]:
    """Returns the lines of the two lists, (exported, undefined), sorted: `name`, or `weak name`."""
    exported: set[str] = set()
    undefined: set[str] = set()
    for line in readelf(library, "--dyn-syms").splitlines():
        #   Num: Value Size Type Bind Vis Ndx Name
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        bind, section, name = fields[4], fields[6], fields[7].split("@")[0]
        if bind not in ("GLOBAL", "WEAK") or section == "ABS":
            continue
        if section == "UND":
            undefined.add(f"weak {name}" if bind == "WEAK" else name)
        else:
            exported.add(name)
    return sorted(exported), sorted(undefined)


def header_names(name: str) -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", (HEADERS / name).read_text(), flags=re.DOTALL)
    return set(re.findall(r"\b(freeway_\w+)\s*\(", text)) | set(re.findall(r"^extern const \w+ (\w+);", text, re.M))


def compare(found: list[str], golden: set[str], optional: bool) -> list[str]:
    faults = [f"new: {line}" for line in found if line not in golden]
    return faults if optional else faults + [f"gone: {line}" for line in sorted(golden - set(found))]


def golden_list(path: Path) -> set[str]:
    return {line for line in path.read_text().split("\n")[1:] if line}


def faults_of_exports(exported: list[str], golden: Path, engine: Engine) -> list[str]:
    headers = (["freeway.h", "heap.h"] if engine.malloc else []) + ([engine.header] if engine.header else [])
    declared = set().union(*(header_names(name) for name in headers))
    expected = golden_list(golden) | declared
    if not engine.vfork:
        expected -= {"vfork", "freeway_vfork"}
    if engine != ENGINES[None]:
        expected -= {"freeway_debug"}  # the flagship's heap alone is described
    faults = compare(exported, expected, optional=False)
    twins = {name for name in exported if name.startswith("freeway_")}
    return faults + [f"exported but declared in no header: {name}" for name in sorted(twins - declared)]


def faults_of_needs(undefined: list[str], library: Path, golden: Path, flagship: bool) -> list[str]:
    faults = compare(undefined, golden_list(golden), optional=not flagship)
    faults += [f"must not be needed: {name}" for name in undefined if FORBIDDEN_NEEDS.match(name)]
    libraries = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(library, "--dynamic")))
    return faults + [f"links {name}" for name in sorted(libraries - ALLOWED_LIBRARIES)]


def needed_versions(library: Path) -> dict[str, set[str]]:
    """The versions of symbols that the library needs, by the library that has them."""
    needed: dict[str, set[str]] = {}
    for line in readelf(library, "--version-info").splitlines():
        if found := re.search(r"Version: 1  File: (\S+)  Cnt: ", line):
            file = needed.setdefault(found.group(1), set())
        elif found := re.search(r"Name: (\S+)  Flags: \S+  Version: \d+$", line):
            file.add(found.group(1))
    return needed


def faults_of_versions(library: Path) -> list[str]:
    """What keeps the library from loading with glibc 2.17 (musl does not look at versions)."""
    needed = needed_versions(library)
    faults = [] if "libc.so.6" in needed else ["the library's versions were not found"]
    for file, versions in sorted(needed.items()):
        print(f"{file}: {', '.join(sorted(versions))}")
        for version in sorted(versions):
            number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version)
            if number is None or (int(number.group(1)), int(number.group(2))) > NEWEST_GLIBC:
                faults.append(f"needs {version} of {file}")
    return faults


def faults_of_data(library: Path) -> list[str]:
    #   [Nr] Name Type Address Off Size ES Flg Lk Inf Al
    rows = re.findall(r"\]\s+(\S+)\s+PROGBITS\s+\S+\s+\S+\s+(\w+)\s+\S+\s+(\w*W\w*)\s", readelf(library, "--sections"))
    total = sum(int(size, 16) for _, size, _ in rows)
    print(f"{total} bytes of initialised writable data in {len(rows)} sections")
    return [f"{total} bytes of initialised data, at most {MOST_DATA}"] if not rows or total > MOST_DATA else []


def report(what: str, faults: list[str], looked_at: str) -> int:
    """Prints the faults, or that there are none; the status."""
    for fault in faults:
        print(f"{what}: {fault}")
    if not faults:
        print(f"{what}: as expected ({looked_at})")
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", choices=["exported", "undefined", "versions", "data", "program"])
    parser.add_argument("--library", type=Path, default=os.environ.get("FREEWAY_LIB"))
    parser.add_argument("--shared-heap", action="store_true", help="the library is libfreeway-shared.so")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    if arguments.library is None:
        parser.error("neither --library nor FREEWAY_LIB is given")
    library = Path(arguments.library)
    if arguments.list == "program":
        names = [line.split()[-1] for line in readelf(library, "--symbols").splitlines() if " FUNC " in line]
        faults = [name for name in names if re.match(r"_Z[nd][wal]", name)] if "malloc" in names else ["no malloc"]
        return report(arguments.list, faults, f"{len(names)} functions")
    name = os.environ.get("FREEWAY_TEST_ENGINE")
    engine = SHARED_HEAP if arguments.shared_heap else ENGINES[name]
    flagship = engine == ENGINES[None]
    golden = HERE / f"{arguments.list}_symbols.txt"
    if arguments.shared_heap and arguments.list == "exported":
        golden = ROOT / "shared/tests" / golden.name

    exported, undefined = dynamic_symbols(library)
    own = flagship or (arguments.shared_heap and arguments.list == "exported")
    if arguments.update and own and arguments.list in ("exported", "undefined"):
        of = "libfreeway.so" if flagship else "libfreeway-shared.so"
        title = f"# The {arguments.list} symbols of {of}; written by symbols.py --update."
        golden.write_text("\n".join([title, *(exported if arguments.list == "exported" else undefined), ""]))
    if arguments.list == "data":
        faults = faults_of_data(library)
    elif arguments.list == "versions":
        faults = faults_of_versions(library)
    elif arguments.list == "exported":
        faults = faults_of_exports(exported, golden, engine)
    else:
        faults = faults_of_needs(undefined, library, golden, flagship)
    return report(arguments.list, faults, f"{len(exported)} exported, {len(undefined)} undefined symbols")


if __name__ == "__main__":
    sys.exit(main())
