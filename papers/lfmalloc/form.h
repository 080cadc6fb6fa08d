// SPDX-License-Identifier: MIT
// form.h: which of the paper's forms of LFMalloc a process has (Dice & Garthwaite 2002, Table 3, section 3.2.2), ours
// among them. The options PROTECTION, REMOTE and GLOBAL say it (papers/front/options.h); the engine reads them when it
// starts.
//
// Restartable sections with hashed heaps cannot be asked for: the kernel restarts a section when its thread loses the
// CPU, and in a heap found by hashing threads of two CPUs could be inside at the same time.
#pragma once

#include "base/integers.h"

namespace freeway::lfmalloc {

enum class Lock : u8 { kNone, kMutex, kSpin };

struct Form {
  bool sections = true;       // a CPU's heap is entered by restartable sections (row 1), where there is rseq; else
  bool per_cpu = false;       // a thread's heap is its CPU's (row 2), or found by a hash of its id (row 3),
  Lock lock = Lock::kNone;    // and this keeps threads in it apart; kNone: CAS
  bool remote_mutex = false;  // a superblock's remote list is changed under a mutex (the paper), or by CAS (ours)
  bool global_mutex = false;  // the global heap's lists are under mutexes (the paper), or lock-free (ours)
};

// `protection`: the option's place among sections|cas-cpu|cas-thread|mutex-cpu|mutex-thread|spin-cpu|spin-thread.
constexpr Form make_form(u64 protection, bool remote_mutex, bool global_mutex) {
  if (protection == 0) return {true, false, Lock::kNone, remote_mutex, global_mutex};
  return {false, protection % 2 == 1, static_cast<Lock>((protection - 1) / 2), remote_mutex, global_mutex};
}

// Written before the first block (by several threads at once: the same).
inline constinit Form form;

}  // namespace freeway::lfmalloc
