// SPDX-License-Identifier: MIT
// malloc.h: the malloc of this process: the heap of small blocks on the substrate, and whether both may be used by now.
//
// Who may enter: any thread, any signal handler, the child of any fork. Nothing here locks.
//
// Word      ready_: 0 -> 1 once the environment could be read and the heap has started. The few allocations that the C
//           library makes before that are served by spare slabs
// Orders    start.cc:[R1] publishes what start() stored; [A1] sees it
// Checked   tests/abi, tests/whole/differential, tests/whole/stress, tests/whole/signal
#pragma once

#include <errno.h>

#include "freeway/freeway.h"
#include "malloc/heap.h"
#include "pages/substrate.h"

namespace freeway {

class Malloc {  // all zero until start()
 public:
  static constexpr std::size_t kMaxSize = PTRDIFF_MAX;

  // Initialises what can be by now (start.cc). False: there is no memory to begin with.
  bool start() { return FREEWAY_LIKELY(ready()) || start_slow(); }
  // The same, and the options are read. False: also while the environment cannot be.
  bool open() { return start() && ready(); }
  bool ready() const { return ready_.load_acquire() != 0; }  // [A1] pairs with start.cc:[R1]
  Substrate& substrate() { return substrate_; }
  Heap& heap() { return heap_; }
  const Options& options() const { return substrate_.options(); }
  PageMap<Machine>& map() { return substrate_.map(); }

 private:
  FREEWAY_NOINLINE bool start_slow();
  void guard_large();

  // What every process writes of the three lies on as few pages as can be: the heap's end and the substrate's begin.
  [[no_unique_address]] Heap heap_;  // see own_heaps
  Atomic<u32> ready_;
  Substrate substrate_;
};

extern FREEWAY_HIDDEN constinit Malloc process_malloc;

// Once: memory for so many bytes, resident from now on: FREEWAY_PREFAULT (reserve.cc).
void prefault(Heap& heap, u64 bytes);

inline void* refused() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace freeway
