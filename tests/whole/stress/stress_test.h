// SPDX-License-Identifier: MIT
//
// stress_test.h: what the stress tests share: blocks that carry their own description, so that whoever gets one, in
// whichever thread, can check every byte of it before freeing it.
#ifndef FREEWAY_TESTS_STRESS_STRESS_TEST_H
#define FREEWAY_TESTS_STRESS_STRESS_TEST_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/abi/abi_test.h"
#include "tests/support/random.h"
#include "tests/whole/differential/trace.h"

namespace freeway::test {

// A block of `size` bytes that begins with this header; the rest carries the pattern of `stamp`.
struct Parcel {
  Parcel* next;
  uint32_t size;
  uint32_t stamp;
};

inline Parcel* make_parcel(size_t size, uint32_t stamp) {
  if (size < sizeof(Parcel)) size = sizeof(Parcel);
  auto* parcel = static_cast<Parcel*>(malloc(size));
  if (parcel == nullptr) return nullptr;
  *parcel = {nullptr, uint32_t(size), stamp};
  pattern::write(reinterpret_cast<unsigned char*>(parcel), sizeof(Parcel), size, stamp);
  return parcel;
}

inline bool is_intact(const Parcel* parcel) {
  return pattern::compare(reinterpret_cast<const unsigned char*>(parcel), sizeof(Parcel), parcel->size,
                          parcel->stamp) == parcel->size;
}

// A lock-free mailbox for parcels: any thread posts, one thread empties it whole. The links lie in the parcels, which
// belong to the mailbox as long as they are in it; since everything is taken at once there is no ABA.
class ParcelStack {
 public:
  void post(Parcel* parcel) {
    Parcel* head = head_.load(std::memory_order_relaxed);
    do parcel->next = head;
    while (!head_.compare_exchange_weak(head, parcel, std::memory_order_release, std::memory_order_relaxed));
  }
  Parcel* take_all() { return head_.exchange(nullptr, std::memory_order_acquire); }

 private:
  alignas(64) std::atomic<Parcel*> head_{nullptr};
};

// Checks and frees a chain. Returns how many there were, or -1 if one was damaged.
inline long free_chain(Parcel* chain) {
  long count = 0;
  for (; chain != nullptr; ++count) {
    Parcel* next = chain->next;
    if (!is_intact(chain)) return -1;
    free(chain);
    chain = next;
  }
  return count;
}

// Mostly small sizes, seldom medium, very seldom large, as programs ask for.
inline size_t program_like_size(Random& random) {
  const uint64_t roll = random.below(1000);
  if (roll < 900) return 16 + random.below(500);
  if (roll < 990) return 500 + random.below(8000);
  return roll < 998 ? 8000 + random.below(24000) : 33000 + random.below(100000);
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_STRESS_STRESS_TEST_H
