# SPDX-License-Identifier: MIT
"""What the report says of itself: how figures are taken, and what its groups of workloads are called."""

from __future__ import annotations

TITLES = {
    "real": "Real programs",
    "today": "Programs of today",
    "small": "Small programs",
    "michael": "Michael 2004",
    "lfmalloc": "Dice and Garthwaite 2002",
    "streamflow": "Streamflow 2006",
    "hmalloc": "HMalloc 2020",
    "nbbs": "Scarselli 2017",
    "papers": "The papers",
    "other": "Others",
}
METHOD = (
    "A sample is one run of a program in a process of its own, with the allocator preloaded; that it was really "
    "loaded is checked in each. The work is fixed by arguments and seed, so every allocator does the same, and its "
    "checksum must be the same under all of them.",
    "Within a repeat all allocators run a workload one after the other, in another order each time: what "
    "disturbs the machine for a while disturbs all of them. A ratio is taken between samples of the same repeat; the "
    "median of these ratios is printed.",
    "Figures are medians, with the quartiles over the repeats. Intervals are 95 % percentile bootstraps over the "
    "repeats; fewer than five repeats cannot give 95 %, and nothing should be concluded from the intervals then.",
    "Time is CPU time of the whole process per operation where a workload says nothing else; the scaling workloads "
    "take time by the clock. Peak RSS is what the kernel counted, the program's own memory included.",
    "A sample is noisy if other processes used more of the machine's CPU time than the run allows; it is repeated, and "
    "kept only if it stays noisy.",
    "A geometric mean counts each workload once, over its figures and numbers of threads. Means relative to the best "
    "compare with whoever is best in each single figure, so no allocator reaches 1 unless it wins everywhere.",
    "Instructions are counted under valgrind, which offers no restartable sequences: lfmalloc and freeway-no-rseq take "
    "their other paths there. Freeway's own are counted in its machine code.",
    "The papers' halves are what the papers print. A dash: the paper prints no number, or what it divides by does not "
    "exist today. “Not measured”: the run did not include it.",
    "To reproduce: `make bench` (everything) or `make bench-quick` (ten minutes); `bench/lab report RESULTS` makes "
    "this page.",
)
