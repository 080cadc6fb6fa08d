# SPDX-License-Identifier: MIT
"""Boots emulated machines with Debian's kernels, old and new, and in each tries Freeway with every C library.

    matrix.py                   all machines; writes docs/matrix.md
    matrix.py amd64 6.1 6.12    those of that processor and these kernels, and their rows of the page
    matrix.py --built ...       with the programs that were built last
    matrix.py --table ...       makes the rows anew of what the machines said last

The page keeps the rows of machines that were not tried, and of those that did not boot.

A machine has the C libraries of Debian's suites side by side, each in a root of its own (roots.py), and the same
programs for all of them (programs.py), which its first process runs one after the other (init.c). What each must say
is in `expected_path` and `Row.faults`. The exit status is 1 if a row is not as it should be, 77 where a tool or the
network is missing.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "machines"))
from emulated import (  # noqa: E402
    ROOT,
    SKIPPED,
    Kind,
    Machine,
    MissingError,
    archive,
    console_of,
    folder,
    kernel_of,
    require_tools,
    version_of,
)
from programs import build_all, build_init  # noqa: E402
from roots import AMD64, ARM64, GLIBC_SUITES, SUITES, Architecture, glibc_root, musl_root  # noqa: E402

PAGE = ROOT / "docs/matrix.md"
BOOT_TIMEOUT_S = 3600
NO_KERNEL = "?"
SETTINGS = "no_timer_check"  # which fails where the emulator gets little time
LIMIT_S, SECTIONS_LIMIT_S = 240, 900  # of one program
CORTEX = ("-M", "virt", "-cpu", "cortex-a72")
SIZE = ("-smp", "2", "-m", "1024")
KINDS = {
    AMD64: Kind("amd64", "qemu-system-x86_64", ("-accel", "tcg", "-cpu", "qemu64", *SIZE), "ttyS0"),
    ARM64: Kind(
        "arm64", "qemu-system-aarch64", ("-M", "virt", "-cpu", "cortex-a72", "-smp", "2", "-m", "1024"), "ttyAMA0"
    ),
}
# The kernels: the oldest and the newest of Debian's suites, and those between that differ in what Freeway uses.
KERNELS = (
    ("5.10", "bullseye"),
    ("6.1", "bookworm"),
    ("6.12", "trixie"),
    ("6.19", "trixie-backports"),
    ("7.0", "trixie-backports"),
    ("7.2", "sid"),
    ("7.3", "experimental"),
)


def machine_of(architecture: Architecture, kernel: str, suite: str) -> Machine:
    """Of that kernel alone: 6.1 is neither 6.12 nor 6.19."""
    numbers = re.escape(kernel)
    return Machine(
        f"{architecture.name}-{kernel}", suite, rf"linux-image-{numbers}(?!\d)[-.\w+]*-cloud-{architecture.name}", ""
    )


MACHINES = [(machine_of(a, *kernel), a) for a in (AMD64, ARM64) for kernel in KERNELS]


def chosen_machines(words: Sequence[str]) -> list[tuple[Machine, Architecture]]:
    """Those of the processors and kernels that are named; all, where none is."""
    names, numbers = [a.name for a in (AMD64, ARM64)], [number for number, _ in KERNELS]
    unknown = set(words) - {*names, *numbers}
    if unknown:
        raise SystemExit(f"neither a processor nor a kernel of the matrix: {', '.join(sorted(unknown))}")

    def named(word: str, all_of_them: Sequence[str]) -> bool:
        return word in words or not set(words) & set(all_of_them)

    return [
        (machine, a)
        for machine, a in MACHINES
        if named(a.name, names) and named(machine.name.removeprefix(f"{a.name}-"), numbers)
    ]


def machine_named(kernel: str, architecture: str) -> str | None:
    """The machine that a kernel of this release is for."""
    for number, _ in KERNELS:
        if re.match(rf"{re.escape(number)}(?!\d)", kernel):
            return f"{architecture}-{number}"
    return None


@dataclass
class Row:
    """One C library in one machine: what each program ended with, and what it said."""

    machine: str
    libc: str
    kernel: str = NO_KERNEL
    rseq_debug: str = "off"
    status: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    @property
    def architecture(self) -> str:
        return self.machine.split("-")[0]

    def booted(self) -> bool:
        return self.kernel != NO_KERNEL

    def path(self) -> str:
        """Which path the heap says it takes."""
        found = re.search(r"  path +(per-CPU slabs[^\r\n]*|spare slabs)", self.said.get("threads", ""))
        if found is None:
            return "?"
        return found.group(1).replace("per-CPU slabs in restartable sections, indexed", "per-CPU,")

    def expected_path(self) -> str:
        """Regular expression. Kernels of aarch64 that do not restart sections must not be trusted with any."""
        version = tuple(int(number) for number in re.findall(r"\d+", self.kernel)[:3])
        if self.architecture == "arm64" and (6, 19) <= version < (7, 0, 14):
            return "spare slabs"
        index = "mm_cid" if version >= (6, 3) else "cpu_id"
        return f"per-CPU, by {index}" + ("" if self.libc_registers_rseq() else ", registered by Freeway")

    def libc_registers_rseq(self) -> bool:
        name, *numbers = re.split(r"[-.]", self.libc)
        return name == "glibc" and (int(numbers[0]), int(numbers[1])) >= (2, 35)

    def faults(self) -> list[str]:
        """What is not as it should be."""
        if not self.booted():
            return ["the machine did not boot"]
        faults = [f"{name}: {status}" for name, status in self.status.items() if status not in ("0", str(SKIPPED))]
        if re.fullmatch(self.expected_path(), self.path()) is None:
            faults.append(f"the path is {self.path()}, not {self.expected_path()}")
        if "doctor" in self.status and self.path() not in self.said["doctor"].replace(
            "per-CPU slabs in restartable sections, indexed", "per-CPU,"
        ):
            faults.append("doctor names another path")
        if not self.status:
            faults.append("nothing ran")
        if machine_named(self.kernel, self.architecture) != self.machine:
            faults.append(f"another kernel booted: {self.kernel}")
        return faults


# --- What a machine does


def plan(architecture: Architecture, glibc: Sequence[str], musl: str, seed: str) -> Iterable[str]:
    """The lines of /plan (init.c)."""

    def line(root: str, name: str, variables: str, *command: str, limit: int = LIMIT_S) -> str:
        return "\t".join([root, name, str(limit), variables, *command])

    seeded = f"FREEWAY_TEST_SEED={seed}"
    for root in (*glibc, musl):
        suffix = ".musl" if root == musl else ""
        if root != musl:
            yield line(root, "doctor", "", "/programs/freeway", "doctor")
        yield line(root, "first calls", "", f"/programs/first_call{suffix}")
        yield line(root, "functions", "", f"/programs/every_function{suffix}")
        yield line(root, "threads", "FREEWAY_STATS=1", f"/programs/heap_program{suffix}", "40000")
        yield line(root, "hardened", "FREEWAY_HARDEN=1,FREEWAY_GUARD=100", f"/programs/heap_program{suffix}", "40000")
        if root != musl:
            yield line(root, "vfork", seeded, "/programs/vfork_test", "--seconds", "0.5", "--limit", "60")
    if architecture is AMD64:  # minutes, and the same for all that use sections
        variables = f"{seeded},FREEWAY_TEST_DISASSEMBLY=/programs/libfreeway.disassembly"
        arguments = ("--only", "every_section", "--limit", str(SECTIONS_LIMIT_S))
        yield line(glibc[-1], "sections", variables, "/programs/every_section", *arguments, limit=SECTIONS_LIMIT_S + 20)
    static = f"{musl}-static"
    yield line(static, "first calls", "", "/programs/first_call.static")
    yield line(static, "threads", "FREEWAY_STATS=1", "/programs/heap_program.static", "40000")


def build_image(image: Path, architecture: Architecture, work: Path, seed: str) -> None:
    """All roots, the programs and the plan; not compressed, which would take the emulated machine longer."""
    roots = dict(glibc_root(suite, architecture, work) for suite in GLIBC_SUITES)
    musl, musl_files = musl_root(architecture, work)
    files = {f"roots/{root}/{path}": content for root, own in roots.items() for path, content in own.items()}
    files |= {f"roots/{musl}/{path}": content for path, content in musl_files.items()}
    files |= build_all(architecture, work)
    files["plan"] = ("\n".join(plan(architecture, list(roots), musl, seed)) + "\n").encode()
    files["init"] = build_init(architecture, work)
    folders = {str(parent) for path in files for parent in Path(path).parents if str(parent) != "."}
    folders |= {f"roots/{musl}-static"}
    members = [(name, 0o040755, b"") for name in sorted(folders)]
    members += [(name, 0o100755, content) for name, content in files.items()]
    image.write_bytes(archive(members))


# --- What it said


def rows_of(machine: str, console: str) -> list[Row]:
    """The rows of a machine's console."""
    text = console.replace("\r", "")
    kernel = re.search(r"== kernel (\S+), rseq debug (\w+)", text)
    if kernel is None:
        return [Row(machine, "any", status={"boot": "failed"})]
    rows: dict[str, Row] = {}
    pattern = re.compile(r"^== begin (\S+) ([^\n]+)\n(.*?)(?:^== end \1 \2 (\S+)$|\Z)", re.MULTILINE | re.DOTALL)
    for libc, name, said, status in pattern.findall(text):
        row = rows.setdefault(libc, Row(machine, libc, kernel.group(1), kernel.group(2)))
        row.status[name] = status or "machine ended"
        row.said[name] = said
    if "== done" not in text:
        rows.setdefault("machine", Row(machine, "machine", kernel.group(1))).status["all"] = "did not end"
    return list(rows.values())


NOT_TRIED = "–"
COLUMNS = ("doctor", "first calls", "functions", "threads", "hardened", "vfork", "sections")


HEAD = ["kernel", "C library", "path", *COLUMNS]


def cells_of(row: Row) -> list[str]:
    """As in the page."""

    def cell(name: str) -> str:
        status = row.status.get(name)
        if status is None or status == str(SKIPPED):
            return NOT_TRIED
        return "yes" if status == "0" else f"**{'hangs' if status == 'hangs' else 'fails'}**"

    path = row.path() if re.fullmatch(row.expected_path(), row.path()) else f"**{row.path()}**"
    kernel = f"{row.architecture} {row.kernel.split('-')[0]}"
    return [kernel, row.libc.replace("-", " "), path, *(cell(name) for name in COLUMNS)]


def table(lines: Iterable[Sequence[str]]) -> str:
    """In Markdown."""
    return "\n".join([f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|", *(f"| {' | '.join(c)} |" for c in lines)])


def summary(lines: Iterable[Sequence[str]]) -> str:
    """A line for each kernel, in Markdown: its path, how many C libraries, and what is not as it should be."""
    kernels: dict[str, list[Sequence[str]]] = {}
    for line in lines:
        kernels.setdefault(line[0], []).append(line)
    said = ["| machine | path | C libraries | not as it should be |", "|---|---|---:|---|"]
    for kernel, own in kernels.items():
        paths = dict.fromkeys(line[2].removesuffix(", registered by Freeway") for line in own)
        wrong = [f"{line[1]}: {name}" for line in own for name, cell in zip(HEAD, line, strict=True) if "**" in cell]
        said.append(f"| {kernel} | {'; '.join(paths)} | {len(own)} | {', '.join(wrong) or 'nothing'} |")
    return "\n".join(said)


def lines_of(page_before: str) -> dict[str, list[list[str]]]:
    """What a page has, by machine; a column that it has not was not tried, and what is nobody's is left out."""
    tabled = [[cell.strip() for cell in line.strip("|").split("|")] for line in page_before.splitlines() if "|" in line]
    head: list[str] = []
    found: dict[str, list[list[str]]] = {}
    for cells in tabled:
        if cells[0] == HEAD[0]:
            head = cells
        elif head and cells[0].count(" ") == 1:
            architecture, kernel = cells[0].split()
            known = dict(zip(head, cells, strict=True))
            line = [known.get(name, NOT_TRIED) for name in HEAD]
            lines = found.setdefault(machine_named(kernel, architecture) or "", [])
            if line[:2] not in [other[:2] for other in lines]:
                lines.append(line)
    found.pop("", None)
    return found


def page(rows: Sequence[Row], page_before: str = "") -> str:
    """The page with these rows; those of other machines are as they were."""
    lines = lines_of(page_before)
    tried = {row.machine for row in rows if row.booted()}
    lines |= {name: [cells_of(row) for row in rows if row.machine == name] for name in tried}
    ordered = [line for machine, _ in MACHINES for line in lines.get(machine.name, [])]
    known = re.search(r"on in:\s+([^|]*?)\.\n", page_before)
    of_others = {line[0].split()[1] for name, own in lines.items() if name not in tried for line in own}
    debugged = {row.kernel.split("-")[0] for row in rows if row.rseq_debug == "on"}
    debugged |= of_others & set(known[1].replace(",", " ").split() if known else ())
    text = (HERE / "page.md").read_text().replace("@SUMMARY@", summary(ordered)).replace("@TABLE@", table(ordered))
    return text.replace("@DEBUG@", ", ".join(sorted(debugged, key=version_of)) or "none")


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    chosen = chosen_machines(words)
    work = folder("matrix")
    seed = os.environ.get("FREEWAY_TEST_SEED", "1")
    rows: list[Row] = []
    images: dict[Architecture, Path] = {}
    try:
        require_tools("gcc", "g++", *{KINDS[a].emulator for _, a in chosen})
        for machine, architecture in chosen:
            place = work / architecture.name
            place.mkdir(exist_ok=True)
            console = place / f"{machine.name}.console"
            if "--table" not in sys.argv:
                kernel = kernel_of(machine, KINDS[architecture], place, SUITES)
                if architecture not in images:
                    images[architecture] = place / "initial_file_system"
                    if "--built" not in sys.argv:
                        build_image(images[architecture], architecture, place, seed)
                console_of(machine, KINDS[architecture], kernel, images[architecture], place, SETTINGS, BOOT_TIMEOUT_S)
            if console.exists():
                rows += rows_of(machine.name, console.read_text(errors="replace"))
    except MissingError as missing_something:
        print(f"skipped: {missing_something}")
        return SKIPPED
    print(table(cells_of(row) for row in rows))
    faults = [f"{row.machine}, {row.libc}: {fault}" for row in rows for fault in row.faults()]
    for fault in faults:
        print(fault)
    PAGE.write_text(page(rows, PAGE.read_text()))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
