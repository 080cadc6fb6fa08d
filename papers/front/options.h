// SPDX-License-Identifier: MIT
// engine_options.h: the engines, and what each can be told: one table, for the libraries and the `freeway` command.
//
// In the environment an option is FREEWAY_<NAME>=value; the command offers it as `--set name=value`. An engine reads
// its options once, when it starts; a value that is not understood gets one line on fd 2, and the default is used.
#pragma once

#include "os/options.h"

namespace freeway {

struct EngineOption {
  const char* engine;
  const char* name;      // after FREEWAY_
  const char* values;    // "lo..hi" or "a|b|c": see parse_option
  const char* fallback;  // one of them
  const char* meaning;
};

inline constexpr EngineOption kEngineOptions[] = {
    // Numbers whose default depends on the machine have 0 for "as many as fit".
    {"michael", "HEAPS", "0..1024", "0", "processor heaps; 0: one for each CPU; 1: the paper's single-heap form"},
    {"michael", "PARTIAL_SLOTS", "1..4", "1", "superblocks in use lately that a heap keeps beside the active one"},
    {"michael", "PARTIAL_LIST", "fifo|lifo", "fifo", "how a size class lists its other partly used superblocks"},
    {"michael", "NEWSB", "free|keep", "free", "a new superblock that another thread's made superfluous"},
    {"michael", "SUPERBLOCK", "linked|untouched", "linked", "untouched: blocks are not written before their first use"},
    {"lfmalloc", "PROTECTION", "sections|cas-cpu|cas-thread|mutex-cpu|mutex-thread|spin-cpu|spin-thread", "sections",
     "what keeps threads of a heap apart, and whose it is (the paper's Table 3); locks are not for signal handlers"},
    {"lfmalloc", "REMOTE", "cas|mutex", "cas", "how a superblock's remote list is changed (the paper: mutex)"},
    {"lfmalloc", "GLOBAL", "lock-free|mutex", "lock-free", "how the global heap's lists are kept (the paper: mutex)"},
    {"lfmalloc", "HEAPS", "0..64", "0", "hashed heaps, where there is no rseq; 0: two for each CPU"},
    {"lfmalloc", "EMPTIES", "0..1000000", "16", "entirely free superblocks kept for any size class"},
    {"streamflow", "LOCAL_CACHE", "0..64", "1", "free page blocks that a thread keeps, of each size (the paper: 1)"},
    {"streamflow", "GLOBAL_CACHE", "0..4096", "0", "free page blocks that threads share, of each size (the paper: 0)"},
    {"nbbs", "LEVELS_PER_WORD", "1|3|4", "4", "levels of the tree in a word"},
    {"nbbs", "FORM", "corrected|published|spin", "corrected",
     "published: as printed, which can hand out a block twice; spin: with a lock, not for signal handlers"},
    {"nbbs", "UP", "on|off", "on", "whether a climb ends at a word all of whose ancestors are marked (corrected)"},
    {"nbbs", "LEVELS", "13..22", "16", "levels of a region's tree: it manages 2^(levels - 1) smallest blocks"},
    {"nbbs", "MIN", "16|32|64|128|256", "16", "smallest block, bytes"},
    {"nbbs", "MAX", "64K|128K|256K|512K|1M", "256K", "largest block, bytes, and at most a region"},
};

// For tools and people: `freeway engines`.
struct EngineDescription {
  const char* name;
  const char* paper;
  const char* promise;
};

inline constexpr EngineDescription kEngines[] = {
    {"freeway", "the synthesis of the five", "lock-free on every path; per-CPU caches without atomic instructions"},
    {"michael", "Michael, PLDI 2004", "lock-free on every path; two words carry the protocol"},
    {"lfmalloc", "Dice & Garthwaite, 2002", "per-CPU heaps in restartable critical sections; lock-free by default"},
    {"streamflow", "Schneider et al., ISMM 2006",
     "thread heaps; no atomic instruction in local calls, one per remote free"},
    {"hmalloc", "HMalloc, 2020", "thread heaps for simulations; no atomic read-modify-write on the common path"},
    {"nbbs", "Scarselli, 2017", "non-blocking buddy system: naturally aligned powers of two"},
};

// The value of an option of `engine`, or its default: a number, or the index of the word. 0 for a name that is not in
// the table. Signal-safe; reads the environment.
u64 engine_option(const char* engine, const char* name);
// Complains of wrong values (with `speak`).
void check_engine_options(const char* engine, bool speak);

}  // namespace freeway
