// SPDX-License-Identifier: MIT
//
// What programs need that are the init process of an emulated machine (emulated.py), where there is nothing else:
// failing with a line on the console, random numbers, and blocks that know what is in them.
#ifndef FREEWAY_TESTS_MACHINES_INIT_PROGRAM_H
#define FREEWAY_TESTS_MACHINES_INIT_PROGRAM_H

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/random.h"

namespace freeway_test {

[[noreturn]] inline void fail(const char* what, const void* where) {
  char line[256];
  const int length = ::snprintf(line, sizeof line, "FAILED: %s (%p)\n", what, where);
  if (::write(1, line, static_cast<size_t>(length)) < 0) {}
  ::abort();
}
inline void require(bool holds, const char* what, const void* where = nullptr) {
  if (!holds) fail(what, where);
}

// A block says how long it is and is filled with a byte that follows from its address.
inline unsigned char pattern_of(const void* block) {
  return static_cast<unsigned char>((reinterpret_cast<uintptr_t>(block) >> 4) * 37 | 1);
}
inline void* get_as(void* pointer, size_t size) {  // at least 16
  auto* block = static_cast<unsigned char*>(pointer);
  require(block != nullptr, "no memory");
  ::memcpy(block, &size, sizeof size);
  ::memset(block + sizeof size, pattern_of(block), size - sizeof size);
  return block;
}
inline void* get(size_t size) { return get_as(::malloc(size), size); }
inline void put(void* pointer) {
  auto* block = static_cast<unsigned char*>(pointer);
  size_t size;
  ::memcpy(&size, block, sizeof size);
  require(size <= 32768, "a block's length is damaged", block);
  for (size_t i = sizeof size; i < size; i++)
    require(block[i] == pattern_of(block), "a block's contents are damaged", block);
  ::memset(block, 0, size);
  ::free(block);
}

}  // namespace freeway_test

#endif  // FREEWAY_TESTS_MACHINES_INIT_PROGRAM_H
