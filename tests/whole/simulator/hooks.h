// SPDX-License-Identifier: MIT
//
// hooks.h: the border between the malloc that is simulated (library/) and the simulator: what the library's sources
// call where the product has the processor, the kernel and the C library.
#ifndef FREEWAY_SIMULATOR_HOOKS_H
#define FREEWAY_SIMULATOR_HOOKS_H

#include <setjmp.h>

extern "C" {

// Operations until the next event. Each atomic operation and each step counts one down, and sim_event() does what the
// seed says.
extern long sim_countdown;
void sim_event(const char* step);

// Where the thread that runs has its struct rseq, as the library's thread pointer.
extern char* sim_thread_pointer;
constexpr long kSimDecoyOffset = 256;

long sim_syscall(long number, unsigned long a, unsigned long b, unsigned long c, unsigned long d, unsigned long e,
                 unsigned long f);

// A restartable section, which the thread enters by [1] and leaves by its commit. One that was interrupted goes back to
// `start` as soon as its thread runs again.
struct SimSection {
  jmp_buf start;
  SimSection* outer;
  bool interrupted;
  unsigned restarts;
};
void sim_section_begin(SimSection* section);
void sim_section_end(SimSection* section);

// The helper (background/): it begins as a thread of the simulation; waits; is woken.
bool sim_make_helper(unsigned* word, int (*f)());
bool sim_wait(unsigned long ns, unsigned long* order);  // false: the time was up
bool sim_wake(unsigned thread);
void sim_become_bare();
void sim_block_signals(bool blocked);

// The planted fault that acts, as "room/header.h:its name"; null: none.
extern const char* sim_fault;
bool sim_is_fault(const char* name, const char* file);
}

#endif  // FREEWAY_SIMULATOR_HOOKS_H
