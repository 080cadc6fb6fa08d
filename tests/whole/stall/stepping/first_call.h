// SPDX-License-Identifier: MIT
//
// first_call.h: stopping a process's first call of the allocator.
//
// It comes before main and before there is another thread. Whoever comes second is a handler that interrupted it: that
// is what the step is to it. If it never returns, the first call has stopped for ever.
#ifndef FREEWAY_TESTS_STALL_STEPPING_FIRST_CALL_H
#define FREEWAY_TESTS_STALL_STEPPING_FIRST_CALL_H

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/whole/signal/support/heap_account.h"

namespace freeway_test {

enum FirstCall { kUnknown, kNotAsked, kAsked };
constinit inline FirstCall first_call = kUnknown;
constinit inline char first_name[64];  // where it stops
constinit inline bool first_is_gone = false;

// What an environment that is not there yet will say: FREEWAY_TEST_FIRST=name:way.
inline void ask_about_first_call() {
  first_call = kNotAsked;
  char text[32768];
  const int fd = ::open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
  const ssize_t length = fd < 0 ? 0 : ::read(fd, text, sizeof text - 1);
  ::close(fd);
  text[length > 0 ? length : 0] = '\0';
  for (const char* at = text; at < text + length; at += std::strlen(at) + 1) {
    constexpr char kKey[] = "FREEWAY_TEST_FIRST=";
    if (std::strncmp(at, kKey, sizeof kKey - 1) != 0) continue;
    at += sizeof kKey - 1;
    const char* const colon = std::strchr(at, ':');
    std::memcpy(first_name, at, std::min<size_t>(colon - at, sizeof first_name - 1));
    first_is_gone = colon[1] == '1';
    first_call = kAsked;
    return;
  }
}

inline bool first_call_stopped = false;

// Small blocks only, and no library of C++: the process is hardly there.
inline void use_the_heap_early() {
  void* blocks[100];
  for (size_t i = 0; i < 100; i++) blocks[i] = ::malloc(16 + 24 * i);
  for (void* block : blocks) {
    require(block != nullptr, "no memory in the first call");
    ::free(block);
  }
}

inline void first_call_at(const char* name) {
  if (first_call == kUnknown) ask_about_first_call();
  if (first_call != kAsked || std::strcmp(name, first_name) != 0) return;
  first_call = kNotAsked;
  first_call_stopped = true;
  use_the_heap_early();
  if (!first_is_gone) return;
  require_clean_audit("audit inside the first call");
  ::_exit(0);
}

}  // namespace freeway_test

#endif  // FREEWAY_TESTS_STALL_STEPPING_FIRST_CALL_H
