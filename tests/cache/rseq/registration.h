// SPDX-License-Identifier: MIT
//
// registration.h: another user of rseq in the process: whether the calling thread is registered, registering it with a
// struct of the test's own, and leaving it. A thread can be registered with one struct only.
#ifndef FREEWAY_TESTS_RSEQ_REGISTRATION_H
#define FREEWAY_TESTS_RSEQ_REGISTRATION_H

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "arch/rseq_layout.h"

namespace freeway_test {

class OtherRseq {
 public:
  bool enter() { return call(0) == 0; }
  bool leave() { return call(RSEQ_UNREGISTER) == 0; }
  int cpu() const {
    int id;
    std::memcpy(&id, const_cast<const char*>(area_) + RSEQ_CPU_ID, sizeof id);
    return id;
  }

 private:
  long call(int flags) { return ::syscall(SYS_rseq, area_, sizeof area_, flags, RSEQ_SIGNATURE); }

  alignas(32) volatile char area_[32] = {};
};

// Whether somebody registered the calling thread: then no other struct can be.
inline bool is_registered() {
  OtherRseq other;
  const bool free = other.enter();
  if (free) other.leave();
  return !free;
}

}  // namespace freeway_test

#endif  // FREEWAY_TESTS_RSEQ_REGISTRATION_H
