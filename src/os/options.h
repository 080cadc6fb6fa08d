// SPDX-License-Identifier: MIT
// options.h: the options in the environment (FREEWAY_…), and those of the program itself.
//
// Read once, when the C library has set `environ` (the first allocations of a process may come before that). The
// environment is ignored in setuid programs. A value that is not understood gets one line on fd 2, and the default is
// used. The first of two settings of one option counts; an empty value is none.
//
// A program may set the options that the environment does not: `freeway_options` points at the text
// "NAME=VALUE;NAME=VALUE", names without FREEWAY_, blanks before them skipped. No value but a path can have a `;` in
// it.
#pragma once

#include "base/integers.h"

namespace freeway {

struct Options {                       // all zero until it is read: it lies in the heap
  bool use_rseq = false;               // FREEWAY_RSEQ (read_options: true if it is absent)
  bool libc_rseq_only = false;         // FREEWAY_RSEQ=libc
  bool force_rseq = false;             // FREEWAY_RSEQ=force
  bool report_only = false;            // FREEWAY_ON_ERROR=report
  u32 harden = 0;                      // FREEWAY_HARDEN=1
  u64 quarantine = 0;                  // FREEWAY_HARDEN=1,quarantine=BYTES (64 KiB if it is absent)
  bool fill = false;                   // FREEWAY_HARDEN=1,fill
  bool keep_deepbind = false;          // FREEWAY_DEEPBIND
  u64 guard = 0;                       // FREEWAY_GUARD=N
  bool guard_large = false;            // FREEWAY_GUARD=N,large
  u64 soft_limit = 0, hard_limit = 0;  // FREEWAY_LIMIT, bytes; 0: none
  u64 prefault = 0;                    // FREEWAY_PREFAULT, bytes
  bool never_purge = false;            // FREEWAY_PURGE=never
  u32 huge = 0;                        // FREEWAY_HUGE: 0 default, 1 never, 2 always
  bool background = false;             // FREEWAY_BACKGROUND
  u64 background_rate = 0;             // FREEWAY_BACKGROUND=BYTES/s; 0: any
  bool stats = false;                  // FREEWAY_STATS=1
  const char* stats_path = nullptr;    // FREEWAY_STATS=json:PATH or text:PATH (points into the option's text)
  bool stats_json = false;             // json, else text
};

// The program's text is at most so many bytes long, its end included; a longer one counts as none.
constexpr std::size_t kLongestOptions = 1024;

// Whether the environment can be read yet.
bool options_available();
// Reads it. With `speak`, complaints are written to fd 2.
Options read_options(bool speak);

// The text of FREEWAY_<name>, from the environment or else from the program; null if there is none.
const char* option_text(const char* name);
// Whether `text`, which is not empty, is a value of FREEWAY_<name>. Not for PROFILE (profile/settings.h).
bool takes_value(const char* name, const char* text);
// Reads `text` as one of `values`: "lo..hi" (a number in that range, decimal) or "a|b|c" (the index of the word).
// False: it is none of them.
bool parse_option(const char* values, const char* text, u64* value);
// Reports on fd 2 that the text of FREEWAY_<name> is none of `values`.
void complain_of_option(const char* name, const char* text, const char* values);

}  // namespace freeway
