// SPDX-License-Identifier: MIT
//
// Mailbox: K slots through which threads and signal handlers hand blocks to each other without waiting.
//
// Word      one pointer a slot: 0 = empty, else a stamped block owned by the slot
// Moves     put: 0 -> block (CAS)      take: any -> 0 (exchange)
// Who       put, take: any thread, any handler; also a handler that interrupted either
// Orders    acquire/release so that the receiver sees the block's contents; both by the C++ library's atomics
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_MAILBOX_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_MAILBOX_H

#include <atomic>
#include <cstddef>

#include "tests/support/random.h"

namespace freeway_test {

template <size_t K> class Mailbox {
 public:
  // Looks at a few slots from a random one on; false if all were taken.
  bool put(void* block, Random& random) {
    const size_t start = random.below(K);
    for (size_t i = 0; i < kTries; i++) {
      void* expected = nullptr;
      if (slots_[(start + i) % K].compare_exchange_strong(expected, block, std::memory_order_acq_rel)) return true;
    }
    return false;
  }
  // A block, or null if the few slots looked at were empty.
  void* take(Random& random) {
    const size_t start = random.below(K);
    for (size_t i = 0; i < kTries; i++)
      if (void* block = slots_[(start + i) % K].exchange(nullptr, std::memory_order_acq_rel)) return block;
    return nullptr;
  }
  // Takes everything; for the end of a test.
  template <class Consumer> void drain(Consumer consume) {
    for (auto& slot : slots_)
      if (void* block = slot.exchange(nullptr, std::memory_order_acq_rel)) consume(block);
  }

 private:
  static constexpr size_t kTries = K < 4 ? K : 4;
  std::atomic<void*> slots_[K] = {};
};

}  // namespace freeway_test
#endif
