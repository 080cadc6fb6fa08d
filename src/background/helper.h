// SPDX-License-Identifier: MIT
// helper.h: the thread that gives memory back while the program does nothing: FREEWAY_BACKGROUND=1.
//
// A process gets it when a slow path first looks at the clock and finds that there is something to give back; so does the
// child of any fork. It touches the heap through what the engine gives it, and only so, and waits for nobody; nobody waits
// for it: it may be stopped or vanish at any instruction, like any other thread. While nothing happens it sleeps.
//
// Words     block: 0 -> what it lives on (os/once.h), whose first words, wiped at forks, are helper_word.h and which process
//           this is: 0 -> its number (CAS); the child of a vfork, which has its parent's words, finds that it is another
// Rights    it gives up all (background/confinement.h) before it looks at anything; where that is refused there is no helper
// Signals   kSignal of background/bare_thread.h, sent to it by name: without a value it looks again; with (bytes to keep) * 2 + 1 it
//           gives back all but those: `freeway trim`
// Lost if killed: what the engine says of a thread that vanishes in drain() or trim(); on x86-64 (a single-threaded program)
//           bitmap words stay atomic until the next helper has done something
// Checked   tests/background, tests/model/helper_word_model.cc, tests/unit/beats_test.cc
#pragma once

#include "background/beats.h"
#include "background/bare_thread.h"

namespace freeway::background {

// What the helper does with the heap, which each of these is given.
struct Work {
  void* heap = nullptr;
  bool (*is_worth_it)(void*) = nullptr;  // whether the heap is large enough for a thread; asked in the thread that makes it
  void (*care)(void*, Care) = nullptr;   // all but kSleep
  void (*trim)(void*, std::size_t keep) = nullptr;
};

// Once, or again with the same: from now on the process is to have a helper. `speak`: if it cannot be, it says so on fd 2.
void start(const Work& work, bool speak);
// The process is this one, for certain: before a vfork.
void know_process();
// A slow path looked at the clock. Makes system calls when the helper must be made or woken.
void tick();

}  // namespace freeway::background
