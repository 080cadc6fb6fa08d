// SPDX-License-Identifier: MIT
//
// A word that one thread sets and others wait for, without a lock and without the allocator; also between processes.
#ifndef FREEWAY_TESTS_STALL_SIGNPOST_H
#define FREEWAY_TESTS_STALL_SIGNPOST_H

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace freeway_test {

class Signpost {
 public:
  void set(uint32_t value) {
    word_.store(value);
    ::syscall(SYS_futex, &word_, FUTEX_WAKE, 1000, nullptr, nullptr, 0);
  }
  uint32_t get() const { return word_.load(); }
  void wait_while(uint32_t value) const {
    while (word_.load() == value) ::syscall(SYS_futex, &word_, FUTEX_WAIT, value, nullptr, nullptr, 0);
  }

 private:
  std::atomic<uint32_t> word_{0};
};

}  // namespace freeway_test

#endif  // FREEWAY_TESTS_STALL_SIGNPOST_H
