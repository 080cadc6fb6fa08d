// SPDX-License-Identifier: MIT
//
// bare_thread.cc: in the place of src/background/bare_thread.cc and confinement.cc: the helper is a thread of the
// simulation.
#include "background/bare_thread.h"

#include "background/confinement.h"
#include "os/process.h"
#include "os/vm.h"

namespace freeway {

bool confine() { return true; }

namespace bare_thread {

uptr make_block() {
  const uptr block = vm::map(kWordBytes, 64 * kKiB);
  if (block == 0) return 0;
  if (vm::wipe_on_fork(block, kWordBytes) == vm::Answer::kDone) return block;
  vm::release(block, kWordBytes);
  return 0;
}

void drop_block(uptr block) {
  if (block > kNoSupport) vm::release(block, kWordBytes);
}

bool make(uptr, Atomic<u32>& word, int (*f)()) { return sim_make_helper(reinterpret_cast<unsigned*>(&word), f); }

SignalsBlocked::SignalsBlocked() { sim_block_signals(true); }
SignalsBlocked::~SignalsBlocked() { sim_block_signals(false); }

void introduce(const char*) {
  process::become_bare();
  sim_become_bare();
}
int status_if_last() { return -1; }

Request wait(u64 ns) {
  u64 order = 0;
  return {.failed = false, .is_order = sim_wait(ns, &order) && (order & 1) != 0, .value = order};
}
bool wake(u64, u32 thread) { return sim_wake(thread); }

}  // namespace bare_thread
}  // namespace freeway
