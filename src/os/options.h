// SPDX-License-Identifier: MIT
// options.h: what FREEWAY_… in the environment asks for, and what the program itself does.
//
// Read once, when the C library has set `environ` (the first allocations of a process may come before that). The
// environment is ignored in setuid programs. A value that is not understood gets one line on fd 2, and the default is
// used. Of an option that is there twice the first counts; an empty value is none.
//
// A program may say what it wants where the environment says nothing of that option: the text that `freeway_options`
// points at, "NAME=VALUE;NAME=VALUE", names without FREEWAY_, blanks before them skipped. No value has a `;` in it but
// a path might.
#pragma once

#include "base/integers.h"

namespace freeway {

struct Options {  // all zero until it is read: it lies in the heap
  bool use_rseq = false;      // FREEWAY_RSEQ (read_options: true where nothing is said)
  bool libc_rseq_only = false;  // FREEWAY_RSEQ=libc
  bool force_rseq = false;      // FREEWAY_RSEQ=force
  bool report_only = false;   // FREEWAY_ON_ERROR=report
  u32 harden = 0;             // FREEWAY_HARDEN=1
  u64 quarantine = 0;         // FREEWAY_HARDEN=1,quarantine=BYTES (64 KiB where nothing is said)
  bool fill = false;          // FREEWAY_HARDEN=1,fill
  bool keep_deepbind = false; // FREEWAY_DEEPBIND
  u64 guard = 0;              // FREEWAY_GUARD=N
  bool guard_large = false;   // FREEWAY_GUARD=N,large
  u64 soft_limit = 0, hard_limit = 0;  // FREEWAY_LIMIT, bytes; 0: none
  u64 prefault = 0;           // FREEWAY_PREFAULT, bytes
  bool never_purge = false;   // FREEWAY_PURGE=never
  u32 huge = 0;               // FREEWAY_HUGE: 0 default, 1 never, 2 always
  bool background = false;    // FREEWAY_BACKGROUND
  bool stats = false;         // FREEWAY_STATS=1
  const char* stats_path = nullptr;  // FREEWAY_STATS=json:PATH or text:PATH (points to where it was read)
  bool stats_json = false;           // which of the two
};

// The program's text is up to so many bytes long, its end included; a longer one is none.
constexpr std::size_t kLongestOptions = 1024;

// Whether the environment can be read yet.
bool options_available();
// Reads it. With `speak`, complaints are written to fd 2.
Options read_options(bool speak);

// The text of FREEWAY_<name>, or what the program says of it; null if there is none.
const char* option_text(const char* name);
// Whether FREEWAY_<name> understands that text, which is not empty. Not asked of LIMIT, PREFAULT and PROFILE, which have forms.
bool takes_value(const char* name, const char* text);
// Reads `text` as one of `values`: "lo..hi" (a number in that range, decimal) or "a|b|c" (the index of the word).
// False: it is none of them.
bool parse_option(const char* values, const char* text, u64* value);
// Says on fd 2 that the text of FREEWAY_<name> is none of `values`.
void complain_of_option(const char* name, const char* text, const char* values);

}  // namespace freeway
