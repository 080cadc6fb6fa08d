// SPDX-License-Identifier: MIT
//
// simulator --seeds A..B | --seed S [--trace] | --fault NAME … | --faults | --hunt SECONDS
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "whole/simulator/hooks.h"
#include "whole/simulator/program.h"
#include "whole/simulator/world.h"

namespace {

constexpr const char* kFaults[] = {
#include "faults.inc"
};

double seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  freeway::sim::World::boot(argc, argv);
  std::uint64_t from = 0, to = 1000;
  bool trace = false, go_on = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--trace") trace = true;
    else if (option == "--go-on") go_on = true;
    else if (option == "--faults") { for (const char* name : kFaults) puts(name); return 0; }
    else if (option == "--seed") from = to = strtoull(value, nullptr, 0), ++i;
    else if (option == "--seeds") { char* rest; from = strtoull(value, &rest, 0); to = strtoull(rest + 2, nullptr, 0); ++i; }
    else if (option == "--fault") { sim_fault = value; ++i; }
  }
  const double begin = seconds();
  int failures = 0;
  for (std::uint64_t seed = from; seed <= to; ++seed) {
    const std::string failure = freeway::sim::run_seed(seed, trace);
    if (failure.empty()) continue;
    printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), failure.c_str());
    ++failures;
    if (!go_on) break;
  }
  const double took = seconds() - begin;
  printf("%.2f s, %.3f ms a seed, %d failures\n", took, took * 1e3 / static_cast<double>(to - from + 1), failures);
  const auto& t = freeway::sim::totals;
  printf("%llu calls, %llu refusals, %llu lost, %llu children", (unsigned long long)t.calls, (unsigned long long)t.refusals, (unsigned long long)t.lost, (unsigned long long)t.children);
  for (int i = 0; i < 8; ++i) printf(", %s %llu", freeway::sim::kEventNames[i], (unsigned long long)t.events[i]);
  puts("");
  return failures != 0;
}
