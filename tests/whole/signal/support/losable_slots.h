// SPDX-License-Identifier: MIT
//
// Slots for the blocks of somebody who may vanish in the middle of a call: a block leaves its slot before a call may
// lose it, and in_hand() says how many bytes of blocks that would be now.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_LOSABLE_SLOTS_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_LOSABLE_SLOTS_H

#include <sys/resource.h>

#include <algorithm>
#include <atomic>

#include "tests/whole/signal/support/block_mix.h"

namespace freeway_test {

class LosableSlots {
 public:
  LosableSlots(void* volatile* slots, uint64_t seed) : random_(seed), slots_(slots) {}
  LosableSlots(const LosableSlots&) = delete;
  LosableSlots& operator=(const LosableSlots&) = delete;

  size_t in_hand() const { return in_hand_; }
  size_t superblocks_in_hand() const { return superblocks_in_hand_; }  // at most; of the allocator's own

  // Every handler calls this before it allocates, and after it jumped out of a call.
  static void lift_memory_limit() {
    if (heap_account.set_limit != nullptr) heap_account.set_limit(0, 0);
    limit_memory(RLIM_INFINITY);
    limit_memory(RLIM_INFINITY, RLIMIT_DATA);
  }

 protected:
  void note(size_t bytes) {
    in_hand_ = bytes;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void get(size_t i, size_t size) {
    drop(i);
    note(size);
    if (size <= kSmall) last_size_ = size;
    slots_[i] = allocate_block(random_, size);
    note(0);
  }
  void drop(size_t i) {
    void* block = slots_[i];
    if (block == nullptr) return;
    slots_[i] = nullptr;
    note(seed_size(seed_of(block)));
    if (in_hand_ <= kSmall) last_size_ = in_hand_;
    release_block(block);
    note(0);
  }
  void resize(size_t i, size_t size) {
    void* block = slots_[i];
    if (block == nullptr) return get(i, size);
    slots_[i] = nullptr;
    note(seed_size(seed_of(block)) + size);
    slots_[i] = resize_block(random_, block, size);
    note(0);
  }

  // What the kernel grants this process from now on.
  static void limit_memory(rlim_t bytes, __rlimit_resource resource = RLIMIT_AS) {
    rlimit limit;
    if (::getrlimit(resource, &limit) != 0) return;
    limit.rlim_cur = std::min(bytes, limit.rlim_max);
    ::setrlimit(resource, &limit);
  }

  Random random_;
  void* volatile* slots_;
  volatile size_t in_hand_ = 0, superblocks_in_hand_ = 1;
  volatile size_t last_size_ = 64;  // of the latest small block that was got or dropped

 private:
  static constexpr size_t kSmall = 32768;
};

}  // namespace freeway_test
#endif
