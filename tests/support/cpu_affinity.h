// SPDX-License-Identifier: MIT
//
// cpu_affinity.h: which CPUs the calling thread may use, and keeping it on some of them. No malloc but for the vector.
#ifndef FREEWAY_TESTS_CPU_AFFINITY_H
#define FREEWAY_TESTS_CPU_AFFINITY_H

#include <sched.h>

#include <cstddef>
#include <vector>

namespace freeway_test {

// The CPUs on which the calling thread may run, in ascending order.
inline std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  return cpus;
}

// Keeps the calling thread on these CPUs; false: not allowed.
inline bool stay_on(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

// The same for one CPU; allocates nothing.
inline bool stay_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace freeway_test

#endif  // FREEWAY_TESTS_CPU_AFFINITY_H
