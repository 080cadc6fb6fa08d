// SPDX-License-Identifier: MIT
//
// A table of blocks that somebody works on who may vanish in the middle of a call: a block leaves the table before a
// call may lose it, and `in_hand` says how much that is.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_LOSABLE_TABLE_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_LOSABLE_TABLE_H

#include <atomic>

#include "tests/whole/signal/support/block_mix.h"

namespace freeway_test {

template <size_t kSlots> struct LosableTable {
  Random random{0};
  void* volatile slots[kSlots] = {};
  volatile size_t in_hand = 0;  // bytes of the program's own blocks that would be lost now

  // One operation on a random slot.
  void operate(const SizeMix& mix) {
    void* volatile& slot = slots[random.below(kSlots)];
    void* block = slot;
    slot = nullptr;
    if (block == nullptr) {
      const size_t size = random_size(random, mix);
      note_in_hand(size);
      slot = allocate_block(random, size);
    } else if (random.one_in(4)) {
      const size_t size = random_size(random, mix);
      note_in_hand(size + seed_size(seed_of(block)));
      slot = resize_block(random, block, size);
    } else {
      note_in_hand(seed_size(seed_of(block)));
      release_block(block);
    }
    note_in_hand(0);
  }

  void empty() {
    for (void* volatile& slot : slots)
      if (void* block = slot) {
        slot = nullptr;
        release_block(block);
      }
  }

 private:
  void note_in_hand(size_t bytes) {
    in_hand = bytes;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
};

}  // namespace freeway_test
#endif
