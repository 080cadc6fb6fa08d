// SPDX-License-Identifier: MIT
//
// Heaps and folders that are used up, to the last block and the last byte. A function yields 0, or which of its steps
// failed.
#ifndef FREEWAY_TESTS_SHARED_USE_UP_H
#define FREEWAY_TESTS_SHARED_USE_UP_H

#include <vector>

#include "shared/tests/shared_file.h"
#include "tests/support/random.h"

namespace freeway_test {

inline void fill_up(const char* folder) {
  const int fd = ::openat(AT_FDCWD, (std::string(folder) + "/rest").c_str(), O_RDWR | O_CREAT, 0600);
  const std::vector<char> page(4096);
  while (::write(fd, page.data(), page.size()) > 0) continue;
  ::close(fd);
}

// Takes blocks until there are no more, and writes to all of each.
inline int use_up(freeway_shared_t* heap, std::vector<void*>& blocks) {
  Random random(7);
  for (int refused = 0; refused < 50;) {
    const size_t bytes = random.one_in(20) ? random.below(200'000) : random.below(10'000);
    void* block = ::freeway_shared_malloc(heap, bytes);
    if (block == nullptr) {
      if (errno != ENOMEM) return 10;
      ++refused;
      continue;
    }
    ::memset(block, 0x5a, ::freeway_shared_usable_size(heap, block));
    blocks.push_back(block);
  }
  return 0;
}

inline int use_up_twice(freeway_shared_t* heap) {
  for (int round = 0; round < 2; round++) {
    std::vector<void*> blocks;
    if (const int failure = use_up(heap, blocks); failure != 0) return failure;
    if (blocks.size() < 20) return 11;
    if (::freeway_shared_audit(heap, nullptr, 0) != 0) return 12;
    for (void* block : blocks)
      if (::freeway_shared_free(heap, block) != 0) return 13;
    ::freeway_shared_trim(heap);
    if (stats_of(heap).live != 0 || stats_of(heap).backed != 0) return 14;
  }
  return 0;
}

}  // namespace freeway_test
#endif
