// SPDX-License-Identifier: MIT
// helper.h: the thread that gives memory back while the program does nothing: FREEWAY_BACKGROUND=1.
//
// A process gets it when a slow path first looks at the clock and finds memory to give back; so does the child of any
// fork. It touches the heap only through the functions of Work, and waits for nobody; nobody waits for it: it may be
// stopped or vanish at any instruction, like any other thread. While nothing happens it sleeps.
//
// Words     block: 0 -> the thread's memory (sync/once.h). Its first words, wiped at forks, are helper_word.h and the
//           process number: 0 -> the number (CAS); the child of a vfork, which has its parent's words, finds another
//           number there
// Rights    it gives up all (background/confinement.h) before it looks at anything; where that is refused there is no
//           helper
// Signals   kSignal of background/bare_thread.h, sent to its thread id: without a value it looks again; with (bytes to
//           keep) * 2 + 1 it gives back all but those: `freeway trim`
// Lost if killed: as for any thread that vanishes in drain() or trim(); on x86-64 (a single-threaded
//           program) bitmap words stay atomic until the next helper has done something
// Checked   tests/background, tests/background/helper_word_model.cc, tests/background/beats_test.cc
#pragma once

#include "background/bare_thread.h"
#include "background/beats.h"

namespace freeway::background {

// The helper's functions on the heap.
struct Work {
  bool (*is_worth_it)() = nullptr;  // whether the heap is large enough for a thread; the maker asks
  bool (*care)(Care) = nullptr;     // for all cares but kSleep; false: not all of it is done yet
  void (*trim)(std::size_t keep) = nullptr;
};

// Once, or again with the same: from now on the process is to have a helper. `speak`: if it cannot have one, it says
// so.
void start(const Work& work, bool speak);
// Stores this process's number, which is certain before a vfork.
void know_process();
// A slow path looked at the clock. Makes system calls when the helper must be made or woken.
void tick();

}  // namespace freeway::background
