// SPDX-License-Identifier: MIT
//
// wanderer.h: a thread that allocates and frees on one CPU and trims on another, as the scheduler may have it at any
// time.
#ifndef FREEWAY_TESTS_ABI_WANDERER_H
#define FREEWAY_TESTS_ABI_WANDERER_H

#include <vector>

#include "tests/support/cpu_affinity.h"
#include "tests/support/engine_under_test.h"

namespace freeway::test {

// Keeps the calling thread on one CPU, its home, unless told otherwise; lets go of it at the end. On a machine with one
// CPU, elsewhere is at home.
class Wanderer {
 public:
  Wanderer() { go_home(); }
  ~Wanderer() { freeway_test::stay_on(cpus_); }
  Wanderer(const Wanderer&) = delete;
  Wanderer& operator=(const Wanderer&) = delete;

  void go_home() { freeway_test::stay_on(cpus_.front()); }
  // Calls trim() away from home, as often as it takes to reach all: once, but for LFMalloc, whose trim takes what its
  // own CPU has on line (GUARANTEES.md).
  template <class F> void trim_elsewhere(F&& trim) {
    if (freeway::test::on_engine("lfmalloc"))
      for (const int cpu : cpus_)
        if (cpu != cpus_.back() && freeway_test::stay_on(cpu)) trim();
    freeway_test::stay_on(cpus_.back());
    trim();
  }

 private:
  const std::vector<int> cpus_ = freeway_test::usable_cpus();
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_ABI_WANDERER_H
