// SPDX-License-Identifier: MIT
//
// Objects in memory that this process shares with the children that it forks from now on, outside the heap.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_SHARED_MEMORY_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_SHARED_MEMORY_H

#include <sys/mman.h>

#include <new>

#include "tests/whole/signal/support/failure.h"

namespace freeway_test {

template <class T> T* share() {
  void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "no shared mapping");
  return new (memory) T;
}

// `count` objects that are zero.
template <class T> T* share_array(size_t count) {
  void* memory = ::mmap(nullptr, count * sizeof(T) + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "no shared mapping");
  return static_cast<T*>(memory);
}

}  // namespace freeway_test
#endif
