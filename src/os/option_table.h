// SPDX-License-Identifier: MIT
// option_table.h: the options and their values as people read them: for the library and the `freeway` command.
#pragma once

namespace freeway {

struct OptionDescription {
  const char* name;      // after FREEWAY_; `freeway run` has it as a flag: ON_ERROR is --on-error
  const char* values;    // "a|b|c" (parse_option), or a form
  const char* fallback;  // the default
  const char* alone;     // what the flag stands for without a value; null: it needs one
  const char* meaning;   // a newline is a blank
};

inline constexpr OptionDescription kOptionTable[] = {
    {"LIMIT", "SOFT[,HARD]", "none", nullptr, R"(Memory that the heap may hold: 900m, 2g, 90% (of the cgroup).
Above SOFT nothing free is kept; beyond HARD: ENOMEM.)"},
    {"BACKGROUND", "0|1|BYTES/s", "0", "1",
     R"(1: a background thread returns memory to the OS while the program is idle.
64m/s: at most that much a second.)"},
    {"PREFAULT", "BYTES", "0", nullptr, "Make this much memory resident at start, and keep it: 64m, 1g."},
    {"PURGE", "default|never", "default", nullptr, R"(never: return memory to the OS only in malloc_trim
(and above a soft limit).)"},
    {"HUGE", "default|never|always", "default", nullptr, R"(Huge pages for blocks.
default: as the system is set, or where they come faster than small pages.)"},
    {"PROFILE", "BYTES[,prefix=PATH][,dump=...]", "none", "512k", R"(Heap profile: one sample in BYTES.
dump=exit (the default), peak (also what was live when most was), signal:USR1, every:1g, or hold:SOCKET.)"},
    {"STATS", "0|1|json:PATH|text:PATH", "0", "1", R"(At exit, report the figures of each layer on standard error,
or in PATH, where %p is the process ID.)"},
    {"HARDEN", "0|1[,quarantine=BYTES][,fill]", "0", "1", R"(1: report every invalid free where it happens;
reuse freed blocks late and in random order. fill: also report writes to freed blocks.)"},
    {"GUARD", "N[,large]", "0", nullptr, R"(Sampled blocks get pages of their own, where overflow and use after free
fault. One in N slow-path mallocs; large: every block over 32 KiB.)"},
    {"ON_ERROR", "abort|report", "abort", nullptr, R"(After an invalid free was reported on standard error:
abort, or go on and leak that block.)"},
    {"RSEQ", "1|0|libc|force", "1", nullptr, R"(Per-CPU caches in restartable sequences.
0: spare slabs instead; libc: only where the C library registered rseq; force: on any kernel.)"},
    {"DEEPBIND", "0|1", "0", nullptr, "0: libraries loaded with RTLD_DEEPBIND use Freeway's malloc, too."},
};

}  // namespace freeway
