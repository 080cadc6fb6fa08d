// SPDX-License-Identifier: MIT
//
// plan.h: which system calls a process is refused, and what it counted: what the drivers and the programs behind a gate
// say to each other. A plan is told in arguments, `--first=3 --last=3 --error=12`; the report lies in a file that both
// have mapped, whose descriptor is kReportFd.
#ifndef FREEWAY_TESTS_SYSTEM_CALLS_PLAN_H
#define FREEWAY_TESTS_SYSTEM_CALLS_PLAN_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace freeway_test {

constexpr int kReportFd = 9;
constexpr int kRunAgain = 78;  // exit status: the library lies where the gate cannot be; start the program again
constexpr size_t kMostNumbers = 512;
constexpr size_t kBeyond = kMostNumbers - 1;  // stands for all numbers from there on

struct Report {
  uint32_t made[kMostNumbers];  // by number of the system call; refused ones count too
  uint32_t refused[kMostNumbers];
  uint64_t calls, of_kind, charged;     // so far: all, those of the plan's number, bytes made writable
  uint64_t calls_of_tour;               // while calls were refused
  uint64_t failures;                    // functions that answered with an error
  uint64_t live_blocks, address_space;  // in the end; the latter in bytes, of the process
};

constexpr uint64_t kForever = ~uint64_t{0};

struct Plan {
  int64_t number = -1;           // of this system call only; -1: of any
  uint64_t first = 0, last = 0;  // refused are the first-th to the last-th; 0: none
  uint64_t longest_map = 0;      // not 0: a mapping that is longer is refused as well
  uint64_t budget = 0;           // not 0: as much may be made writable, then no more
  int64_t error = 12;            // ENOMEM
};

// Calls f(name, value) for each field: how it is called in arguments.
template <class P, class F> void each_field(P& plan, F&& f) {
  f("--number=", plan.number);
  f("--first=", plan.first);
  f("--last=", plan.last);
  f("--longest-map=", plan.longest_map);
  f("--budget=", plan.budget);
  f("--error=", plan.error);
}

// Uses neither stdio nor malloc.
inline Plan read_plan(int argc, char** argv) {
  Plan plan;
  for (int i = 1; i < argc; i++)
    each_field(plan, [&](const char* name, auto& value) {
      const size_t length = std::strlen(name);
      if (std::strncmp(argv[i], name, length) != 0) return;
      const char* text = argv[i] + length;
      value = static_cast<std::remove_reference_t<decltype(value)>>(*text == '-' ? std::strtoll(text, nullptr, 10)
                                                                                 : std::strtoull(text, nullptr, 10));
    });
  return plan;
}

}  // namespace freeway_test
#endif
