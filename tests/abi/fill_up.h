// SPDX-License-Identifier: MIT
//
// fill_up.h: blocks until memory is refused, and what must hold afterwards; for scenarios (scenario.h).
#ifndef FREEWAY_TESTS_ABI_FILL_UP_H
#define FREEWAY_TESTS_ABI_FILL_UP_H

#include <freeway/freeway.h>

#include "abi_test.h"
#include "scenario.h"

namespace freeway::test {

// A chain of blocks through their first words, so that holding them takes no other memory.
struct Link {
  Link* next;
  size_t size;
};

// Allocates blocks of `size` until it is refused; each is stamped. Returns how many there are.
inline size_t fill_up(Link*& chain, size_t size) {
  size_t count = 0;
  for (;;) {
    errno = 0;
    auto* link = static_cast<Link*>(hide(malloc(size)));
    if (link == nullptr) {
      require(errno == ENOMEM, "refusal without ENOMEM");
      return count;
    }
    link->next = chain;
    link->size = size;
    memset(link + 1, 0x5a, size - sizeof(Link) < 200 ? size - sizeof(Link) : 200);
    chain = link;
    ++count;
    require(count < 10000000, "memory never ends");
  }
}

inline void free_all(Link*& chain) {
  while (chain != nullptr) {
    Link* next = chain->next;
    const auto* byte = reinterpret_cast<const unsigned char*>(chain + 1);
    const size_t stamped = chain->size - sizeof(Link) < 200 ? chain->size - sizeof(Link) : 200;
    for (size_t i = 0; i < stamped; ++i) require(byte[i] == 0x5a, "a block was overwritten");
    free(chain);
    chain = next;
  }
}

inline void require_sound_heap() {
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0, "the audit found errors");
  require(audit.frames_stranded == 0, "frames were lost");
}

inline void require_everything_works() {
  for (const size_t size : kInterestingSizes) {
    void* block = hide(malloc(size));
    require(block != nullptr, "malloc after memory came back");
    fill(block, size, 7);
    block = hide(realloc(block, size + 5000));
    require(block != nullptr && holds(block, size, 7), "realloc after memory came back");
    free(block);
  }
  void* huge = hide(malloc(2 * kLargestLarge));
  require(huge != nullptr, "a huge block after memory came back");
  free(huge);
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_ABI_FILL_UP_H
