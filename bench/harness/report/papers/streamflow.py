# SPDX-License-Identifier: MIT
"""Schneider, Antonopoulos and Nikolopoulos, Scalable Locality-Conscious Multithreaded Memory Allocation (ISMM 2006)."""

from __future__ import annotations

from harness.report.lineup import FLAGSHIP, GLIBC
from harness.report.papers.table import (
    NO_DENOMINATOR,
    At,
    Cell,
    Figure,
    Paper,
    PaperTable,
    Row,
    improvements,
    mib,
    percent_more,
)
from harness.report.words import number
from harness.workload import MINOR_FAULTS

HEADERLESS, HEADERS, SUPERPAGES = "streamflow", "streamflow-headers", "streamflow-superpages"
TCMALLOC, MICHAEL = "tcmalloc-2.10", "michael"
THREADS = (1, 2, 4, 8)
MOST = THREADS[-1]
PEERS = (
    "each allocator named. glibc and gperftools' tcmalloc are today's releases, Michael is our engine `michael`; "
    "Hoard 3.3.0 and Vam have no stand-in."
)


def _improvement(workload: str, label: str, printed: tuple[str, str, str, str], threads: tuple[int, ...]) -> Row:
    ours: tuple[Cell, ...] = tuple(
        improvements(workload, SUPERPAGES, other, threads) for other in (GLIBC, TCMALLOC, MICHAEL)
    )
    return Row(label, printed, (*ours, improvements(workload, FLAGSHIP, GLIBC, threads)))


SPEED = PaperTable(
    "Figs 2 and 3",
    "How much longer the others take than Streamflow with superpages: lowest … highest over 1 to 8 threads (mean)",
    ("glibc", "Tcmalloc", "Michael", "Hoard"),
    (GLIBC, TCMALLOC, MICHAEL, f"{FLAGSHIP}, over {GLIBC}"),
    (
        _improvement("parser-streamflow", "197.parser (1 thread)",
                     ("+36 % (thread-safe), +7 % (not)", "more than +8.5 % (headerless)", "+40 %", "crashed"), (None,)),
        _improvement("recycle-streamflow", "recycle, 1 thread", ("+41 %", "+14 %", "+48 %", "+59 %"), (1,)),
        _improvement("recycle-streamflow", "recycle, 2–8 threads",
                     ("8 … 39 % (25)", "similar", "10 … 43 % (22)", "11 … 54 % (29)"), THREADS[1:]),
        _improvement("larson-streamflow", "larson",
                     ("27 % … 7.73 × (4.53 ×)", "1.9 … 2.6 × (67 %)", "78 % … 5.6 × (3.5 ×)", "56 % … 5.5 × (2.5 ×)"),
                     THREADS),
        _improvement("consume-streamflow", "consume",
                     ("25 % … 1.3 × (77 %)", "4 % … 3.7 × (2 ×)", "74 % … 2.7 × (1.8 ×)", "60 % … 8.7 × (5.1 ×)"),
                     THREADS),
        _improvement("knary-streamflow", "knary", ("70 % … 1.5 × (88 %)", "(73 %)", "(76 %)", "(64 %)"), THREADS),
        _improvement("barnes-streamflow", "barnes", ("(4.9 %)", "(3.6 %)", "−2.6 … −4.6 % (−3.6)", "(4.3 %)"), THREADS),
        _improvement("mpcdm-streamflow", "mpcdm",
                     ("18 … 45 % (32)", "… 88 % (36)", "12 … 50 % (42)", "12 … 50 % (22)"), THREADS),
    ),
    PEERS,
    "glibc of 2005 had no thread cache and took a lock twice a pair; today's takes none in the common case, so "
    "improvements of that size are not to be expected. The larson here does a fixed amount of work; the paper's ran "
    "for five seconds.",
)  # fmt: skip


def _builds(workload: str, label: str, printed: tuple[str, str], threads: int | None) -> Row:
    ours = tuple(
        Figure(At(workload, HEADERS, threads), At(workload, build, threads), percent_more)
        for build in (HEADERLESS, SUPERPAGES)
    )
    return Row(label, printed, ours)


BUILDS = PaperTable(
    "§4.2, builds",
    "What leaving out the headers, and superpages beside, gain over the build with headers",
    ("without headers", "superpages"),
    (HEADERLESS, SUPERPAGES),
    (
        _builds("parser-streamflow", "197.parser (1 thread)", ("+15 %", "+5 % more"), None),
        _builds("recycle-streamflow", f"recycle, {MOST} threads", ("none", "none"), MOST),
        _builds("larson-streamflow", f"larson, {MOST} threads", ("+15 %", "–"), MOST),
        _builds("barnes-streamflow", f"barnes, {MOST} threads", ("–", "+2 %"), MOST),
        _builds("mpcdm-streamflow", f"mpcdm, {MOST} threads", ("+4 %", "+6 %"), MOST),
    ),
    "none: the engine is compared with itself.",
    "A header of 8 bytes doubles an object of 8; here malloc's blocks are aligned to 16 bytes in every build, so "
    "leaving it out gains less. Superpages are asked for with madvise, and the kernel may hand out huge pages "
    "unasked.",
)


def _faults(workload: str, label: str, printed: tuple[str, str, str], threads: int | None) -> Row:
    builds = (HEADERS, HEADERLESS, SUPERPAGES, FLAGSHIP, GLIBC)
    return Row(label, printed, tuple(Figure(At(workload, b, threads, MINOR_FAULTS), form=number) for b in builds))


FAULTS = PaperTable(
    "§4.2, page faults",
    "Minor page faults of a run",
    ("headers", "without headers", "superpages"),
    (HEADERS, HEADERLESS, SUPERPAGES, FLAGSHIP, GLIBC),
    (
        _faults("parser-streamflow", "197.parser (1 thread)", ("3.8 million", "2.6 million", "713"), None),
        _faults("larson-streamflow", f"larson, {MOST} threads", ("51 000", "3 200", "–"), MOST),
        _faults("barnes-streamflow", f"barnes, {MOST} threads", ("–", "9 100", "7 900"), MOST),
        _faults("mpcdm-streamflow", f"mpcdm, {MOST} threads", ("247 000", "127 000", "888"), MOST),
    ),
    "none: counts. Ours have the program's own pages in them, and the work may be a division of the paper's.",
    "Faults follow the amount of memory touched for the first time: sizes of 16 bytes instead of 4 touch more, work "
    "that was divided touches less. The order of the builds is what compares.",
)


def _footprint(workload: str, label: str, printed: str, threads: int | None) -> Row:
    shown = (HEADERLESS, SUPERPAGES, TCMALLOC, MICHAEL, GLIBC, FLAGSHIP)
    cells = tuple(Figure(At(workload, name, threads, "vm_peak_kib"), form=mib) for name in shown)
    return Row(label, tuple(printed.split("/")), cells)


TABLE_2 = PaperTable(
    "Table 2",
    f"Maximum virtual footprint, MB, {MOST} threads (ours: VmPeak, MiB)",
    ("without headers", "superpages", "Hoard", "Tcmalloc", "Michael", "glibc"),
    (HEADERLESS, SUPERPAGES, TCMALLOC, MICHAEL, GLIBC, FLAGSHIP),
    (
        _footprint("parser-streamflow", "197.parser (1 thread)", "17/19/–/18/27/16", None),
        _footprint("recycle-streamflow", "recycle", "20/23/19/19/19/28", MOST),
        _footprint("larson-streamflow", "larson", "1487/1598/289/685/235/196", MOST),
        Row("of which stacks", ("1473", "1581", "273", "671", "218", "174"), (NO_DENOMINATOR,) * 6),
        _footprint("consume-streamflow", "consume", "23/28/21/22/23/25", MOST),
        _footprint("knary-streamflow", "knary", "28/31/25/26/27/32", MOST),
        _footprint("barnes-streamflow", "barnes", "45/47/46/41/43/46", MOST),
        _footprint("mpcdm-streamflow", "mpcdm", "530/538/1032/530/630/610", MOST),
    ),
    "none: absolute figures.",
    "Address space was worth counting with 2 GB; today it costs nothing, and allocators reserve much more than they "
    "use (Freeway and its engines reserve 64 GiB at the start, glibc 64 MiB an arena). Peak RSS, beside each "
    "workload above, is what compares.",
)

PAPER = Paper(
    "streamflow",
    "Scott Schneider, Christos D. Antonopoulos, Dimitrios S. Nikolopoulos: Scalable Locality-Conscious Multithreaded "
    "Memory Allocation. ISMM 2006",
    "4 two-way Xeon of 2.0 GHz, 2 GB; Linux 2.6.13",
    (SPEED, BUILDS, FAULTS, TABLE_2),
)
