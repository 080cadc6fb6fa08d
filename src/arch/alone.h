// SPDX-License-Identifier: MIT
// alone.h: changes a word without an atomic instruction while the process has one thread (x86-64: 2 ns instead of 9).
//
// libc clears __libc_single_threaded before it makes a second thread. Test, load and store are one restartable section:
// if a signal handler comes in between, and frees a block, or makes a thread, the section starts again and sees it. So
// no other thread exists between the test and the store. libc does not know Freeway's own helper thread. Before the
// helper touches such a word, it has the sections read a 0 instead of libc's flag, and then interrupts them all
// (malloc/idle.cc). Not covered: threads that libc does not know (raw clone(CLONE_VM), a second libc loaded by dlmopen)
// and that allocate from this heap before libc makes its first thread. docs/limits.md says so. aarch64 does not need
// it: its atomics cost as much as plain accesses while the line is in the cache.
#pragma once

#include "arch/atomic.h"

namespace freeway::alone {

struct Answer {
  u64 old, done;
};
// word |= mask.
struct Change {
  Atomic<u64>* word;
  u64 mask;
};
struct Stopped {
  u64 at;   // address of a change; | 1: it was not done
  u64 old;  // the previous value of the last changed word
};

#if defined(__x86_64__)
}  // namespace freeway::alone
extern "C" {
FREEWAY_HIDDEN freeway::alone::Stopped freeway_alone_set_each(const freeway::alone::Change* first,
                                                              const freeway::alone::Change* end);
FREEWAY_HIDDEN freeway::alone::Answer freeway_alone_clear_bits(freeway::Atomic<freeway::u64>* word, freeway::u64 mask);
}
namespace freeway::alone {

// Whether the process has one thread now. `flag`: freeway_rseq.alone. A hint: the sections ask again.
inline bool holds(const char* flag) { return *static_cast<const volatile char*>(flag) != 0; }

// Makes the changes from `first` (at least one) to `end`, one after the other, each in a section of its own. Stops
// behind one that the caller must look at: the word was 0, had one of the bits, or has all there are now (or a few more
// cases: its set bits are the lowest). Then `at` is that change, and `old` its word's old value; `end` if there was
// none.
inline Stopped set_each(const Change* first, const Change* end) { return freeway_alone_set_each(first, end); }

// word |= mask, or word &= ~mask. True: done, and `old` is the word's old value. False: nothing was done.
inline bool set_bits(Atomic<u64>& word, u64 mask, u64& old) {
  const Change change{&word, mask};
  const Stopped stopped = set_each(&change, &change + 1);
  old = stopped.old;
  return (stopped.at & 1) == 0;
}
inline bool clear_bits(Atomic<u64>& word, u64 mask, u64& old) {
  const Answer answer = freeway_alone_clear_bits(&word, mask);
  old = answer.old;
  return answer.done != 0;
}
#else
inline bool holds(const char*) { return false; }
inline Stopped set_each(const Change* first, const Change*) { return {reinterpret_cast<u64>(first) | 1, 0}; }
inline bool set_bits(Atomic<u64>&, u64, u64&) { return false; }
inline bool clear_bits(Atomic<u64>&, u64, u64&) { return false; }
#endif

}  // namespace freeway::alone
