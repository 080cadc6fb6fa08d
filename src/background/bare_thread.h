// SPDX-License-Identifier: MIT
// bare_thread.h: a thread that the C library does not know, made by the bare system call.
//
// Why       pthread_create takes locks, and allocates: neither a signal handler nor the child of a fork beside other
//           threads may call it. This takes a few system calls
// Block     one mapping for the thread, which the kernel wipes in the child of a fork:
//             64 KiB of words, its owner's | 64 KiB not accessible | 64 KiB of stack | thread-local storage, zero, with
//             the thread pointer at the same distance from a multiple of 4096 as in all other threads
// May       call system calls, and code of Freeway that touches nothing of its thread but errno. It is not registered
//           for rseq, so it enters no section. No malloc; nothing of the program
// Signals   all are blocked in it, for good
// Lost if killed: nothing; the block stays mapped
// Checked   tests/background
#pragma once

#include "arch/atomic.h"

namespace freeway::bare_thread {

constexpr std::size_t kWordBytes = 64 * kKiB;

// A new block, its words zero. 0: refused this time; kNoSupport: the kernel cannot wipe memory at forks (before Linux
// 4.14).
constexpr uptr kNoSupport = 1;
uptr make_block();
void drop_block(uptr block);

// Makes a thread that runs f and ends with the status that f returns. `word` is the kernel's: it stores the thread's id
// there before this returns and before f begins, and 0 when the thread has ended, however it ended. Until then the
// block is the thread's. False: refused. All signals must be blocked (SignalsBlocked): so they are in the new thread.
bool make(uptr block, Atomic<u32>& word, int (*f)());

// Blocks all signals of the calling thread, the C library's own too, while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  u64 before_ = 0;
};

// For the thread itself: sets its name, the CPUs of the process's first thread, and no more urgency than an ordinary
// thread.
void introduce(const char* name);

// If all other threads of the process have ended, so that the calling one keeps an empty process alive: the status that
// the first one ended with, which is the process's if the last one ends with it, too. Else, or where /proc does not
// say, -1.
int status_if_last();

// The signal that wakes such threads: the C libraries keep it for themselves, so programs can neither handle nor wait
// for it; they send it to single threads of theirs only, never to the process.
constexpr int kSignal = 33;

struct Request {
  bool failed = false;    // the kernel does not let the thread wait
  bool is_order = false;  // it came with a value; else it was wake(), or the time was up
  u64 value = 0;
};
// For the thread itself: waits for kSignal.
Request wait(u64 ns);
// Wakes the thread `thread` of process `process`. False: it could not.
bool wake(u64 process, u32 thread);

}  // namespace freeway::bare_thread
