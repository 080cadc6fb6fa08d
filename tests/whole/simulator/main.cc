// SPDX-License-Identifier: MIT
//
// main.cc: the simulator's command line: README.md.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "whole/simulator/hooks.h"
#include "whole/simulator/program.h"
#include "whole/simulator/world.h"

namespace freeway::sim {
namespace {

constexpr const char* kFaults[] = {
#include "faults.inc"
};

const char* program = "simulator";

double seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

struct Range {
  std::uint64_t from = 0, to = 999;
};

bool read_range(const char* text, Range& range) {
  char* rest = nullptr;
  range.from = range.to = strtoull(text, &rest, 0);
  if (strncmp(rest, "..", 2) == 0) range.to = strtoull(rest + 2, &rest, 0);
  return rest != text && *rest == 0 && range.from <= range.to;
}

const char* known_fault(std::string_view name) {
  for (const char* each : kFaults)
    if (name == each) return each;
  fprintf(stderr, "simulator: there is no fault \"%.*s\"; --faults lists them\n", static_cast<int>(name.size()), name.data());
  exit(2);
}

void write_replay(std::uint64_t seed) {
  printf("replay: %s", program);
  if (sim_fault != nullptr) printf(" --fault '%s'", sim_fault);
  printf(" --seed %llu --trace\n", static_cast<unsigned long long>(seed));
}

// Runs the seeds; the number of those that fail. Ends with the first, unless it is to go on.
unsigned run_seeds(const Range& range, bool trace, bool goes_on) {
  const double begin = seconds();
  unsigned failures = 0;
  std::uint64_t seeds = 0;
  for (std::uint64_t seed = range.from; seed <= range.to && (goes_on || failures == 0); ++seed, ++seeds) {
    const std::string failure = run_seed(seed, trace);
    if (failure.empty()) continue;
    printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), failure.c_str());
    write_replay(seed);
    ++failures;
  }
  const double took = seconds() - begin;
  printf("%llu seeds, %u failures, %.3f ms a seed\n%llu calls; events:", static_cast<unsigned long long>(seeds), failures,
         took * 1e3 / static_cast<double>(seeds), static_cast<unsigned long long>(totals.calls));
  for (int i = 1; i < kEvents; ++i) printf(" %s %llu", kEventNames[i], static_cast<unsigned long long>(totals.events[i]));
  printf("; refused %llu; calls that never came back %llu; the longest call alone %ld operations\n",
         static_cast<unsigned long long>(totals.refusals), static_cast<unsigned long long>(totals.lost), world.longest_call);
  return failures;
}

// How many seeds it takes to find the fault that acts; 0: not found in the time.
std::uint64_t hunt(std::uint64_t first, std::uint64_t most, double time, std::string& what) {
  const double begin = seconds();
  for (std::uint64_t n = 1; n <= most; ++n) {
    what = run_seed(first + n - 1, false);
    if (!what.empty()) return n;
    if (seconds() - begin > time) break;
  }
  return 0;
}

// A table of all faults, or of those given. The number of those that were not found.
unsigned hunt_all(const std::vector<const char*>& faults, std::uint64_t first, std::uint64_t most, double time) {
  world.silent = true;
  unsigned missing = 0;
  printf("| fault | found after seeds | seconds | by |\n|---|---|---|---|\n");
  for (const char* fault : faults) {
    sim_fault = fault;
    std::string what;
    const double begin = seconds();
    const std::uint64_t found = hunt(first, most, time, what);
    for (char& c : what)
      if (c == '|' || c == '\n') c = ' ';
    printf("| %s | ", fault);
    if (found == 0) printf("- | %.1f | |\n", seconds() - begin);
    else printf("%llu | %.2f | %s |\n", static_cast<unsigned long long>(found), seconds() - begin, what.c_str());
    fflush(stdout);
    missing += found == 0;
  }
  sim_fault = nullptr;
  return missing;
}

constexpr char kUsage[] =
    "simulator --seeds A..B [--go-on]       runs these seeds; ends with the first that fails\n"
    "simulator --seed S [--trace]           runs this one, and says what happens\n"
    "simulator --fresh N                    runs N seeds from the clock's on\n"
    "simulator --fault NAME ...             the same with a planted fault\n"
    "simulator --faults                     lists them\n"
    "simulator --hunt SECONDS [--most N] [--first S] [--list FILE]\n"
    "                                       how many seeds each fault (of the list) needs to be found, at most so long each;\n"
    "                                       with a list, fails where one is not found\n";

int run(int argc, char** argv) {
  Range range;
  bool trace = false, goes_on = false, hunts = false, has_list = false;
  double time = 0;
  std::uint64_t most = ~std::uint64_t{0}, first = 1'000'000;
  std::vector<std::string> lines;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    bool good = true, takes = true;
    if (option == "--seed" || option == "--seeds") {
      good = read_range(value, range);
    } else if (option == "--fresh") {
      range.from = (static_cast<std::uint64_t>(time_t(::time(nullptr))) << 20) ^ 0x5eed;
      range.to = range.from + strtoull(value, nullptr, 0) - 1;
      printf("seeds %llu..%llu\n", static_cast<unsigned long long>(range.from), static_cast<unsigned long long>(range.to));
    } else if (option == "--fault") {
      sim_fault = known_fault(value);
    } else if (option == "--hunt") {
      hunts = true;
      time = strtod(value, nullptr);
      good = time > 0;
    } else if (option == "--most") {
      most = strtoull(value, nullptr, 0);
    } else if (option == "--first") {
      first = strtoull(value, nullptr, 0);
    } else if (option == "--list") {
      FILE* file = fopen(value, "r");
      char line[200];
      while (file != nullptr && fgets(line, sizeof(line), file) != nullptr) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] != 0 && line[0] != '#') lines.emplace_back(line);
      }
      has_list = good = file != nullptr;
      if (file != nullptr) fclose(file);
    } else {
      takes = false;
      if (option == "--trace") trace = true;
      else if (option == "--go-on") goes_on = true;
      else if (option == "--faults") return [] { for (const char* name : kFaults) puts(name); return 0; }();
      else good = false;
    }
    if (!good) {
      fputs(kUsage, stderr);
      return 2;
    }
    i += takes;
  }
  if (!hunts) return run_seeds(range, trace, goes_on) != 0;
  std::vector<const char*> faults;
  for (const std::string& line : lines) faults.push_back(known_fault(line));
  if (!has_list) faults.assign(std::begin(kFaults), std::end(kFaults));
  const unsigned missing = hunt_all(faults, first, most, time);
  printf("%zu of %zu faults found\n", faults.size() - missing, faults.size());
  return has_list && missing != 0;
}

}  // namespace
}  // namespace freeway::sim

int main(int argc, char** argv) {
  freeway::sim::World::boot(argc, argv);
  freeway::sim::program = argv[0];
  return freeway::sim::run(argc, argv);
}
