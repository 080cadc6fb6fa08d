// SPDX-License-Identifier: MIT
// option_table.h: the options and their values as people read them: for the library and the `freeway` command.
#pragma once

namespace freeway {

struct OptionDescription {
  const char* name;     // after FREEWAY_
  const char* values;   // "a|b|c" (parse_option), or a form
  const char* meaning;  // the default in parentheses
};

inline constexpr OptionDescription kOptionTable[] = {
    {"RSEQ", "1|0|libc|force",
     "per-CPU caches in restartable sections; 0: spare slabs; libc: its rseq only; force: any kernel (1)"},
    {"ON_ERROR", "abort|report", "after an invalid free was named on fd 2: abort, or go on and leak the block (abort)"},
    {"HARDEN", "0|1[,quarantine=BYTES][,fill]",
     "1: invalid frees named; random order; BYTES (64k) rest; fill: writes named (0)"},
    {"GUARD", "N[,large]",
     "one in N slow mallocs has pages of its own, where bad accesses fault; large: large ones, too (0)"},
    {"LIMIT", "SOFT[,HARD]",
     "how much memory the heap may hold: 900m, 2g, 90% (of the cgroup's); beyond HARD: ENOMEM (none)"},
    {"PREFAULT", "BYTES", "so much memory is made resident at start and stays, free or not: 64m, 1g (0)"},
    {"PURGE", "default|never", "never: nothing is given back to the kernel but by malloc_trim (default)"},
    {"HUGE", "default|never|always",
     "huge pages for blocks; default: the system's choice, or where they come fast (default)"},
    {"BACKGROUND", "0|1|BYTES/s",
     "1: a thread gives memory back while the program does nothing; 64m/s: at most so much a second (0)"},
    {"PROFILE", "BYTES[,prefix=PATH][,dump=...]",
     "heap profile: one sample in BYTES; dump=exit|signal:USR1|every:1g|hold:PATH (0)"},
    {"STATS", "0|1|json:PATH|text:PATH", "at exit, what each layer did, on fd 2 or in PATH; %p there: process id (0)"},
    {"DEEPBIND", "0|1", "0: libraries that are loaded with RTLD_DEEPBIND take malloc from Freeway like others (0)"},
};

}  // namespace freeway
