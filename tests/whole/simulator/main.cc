// SPDX-License-Identifier: MIT
//
// main.cc: the simulator's command line: README.md.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/whole/simulator/hooks.h"
#include "tests/whole/simulator/program.h"
#include "tests/whole/simulator/world.h"

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
  fprintf(stderr, "simulator: there is no fault \"%.*s\"; --faults lists them\n", static_cast<int>(name.size()),
          name.data());
  exit(2);
}

void write_replay(std::uint64_t seed) {
  printf("replay: %s", program);
  if (sim_fault != nullptr) printf(" --fault '%s'", sim_fault);
  printf(" --seed %llu --trace\n", static_cast<unsigned long long>(seed));
}

// N seeds that nobody has tried, most likely.
Range fresh_seeds(std::uint64_t count) {
  const std::uint64_t from = static_cast<std::uint64_t>(time(nullptr)) << 20;
  printf("then seeds %llu..%llu\n", static_cast<unsigned long long>(from),
         static_cast<unsigned long long>(from + count - 1));
  return {from, from + count - 1};
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
  printf("%llu seeds, %u failures, %.3f ms a seed\n%llu calls; events:", static_cast<unsigned long long>(seeds),
         failures, took * 1e3 / static_cast<double>(seeds), static_cast<unsigned long long>(totals.calls));
  for (int i = 1; i < kEvents; ++i)
    printf(" %s %llu", kEventNames[i], static_cast<unsigned long long>(totals.events[i]));
  printf("; refused %llu; calls that never came back %llu; the longest call alone %ld operations\n",
         static_cast<unsigned long long>(totals.refusals), static_cast<unsigned long long>(totals.lost),
         world.longest_call);
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

struct Hunted {
  const char* fault;
  std::uint64_t most;  // seeds
};

// A table. The number of faults that were not found.
unsigned hunt_all(const std::vector<Hunted>& faults, std::uint64_t first, double time) {
  unsigned missing = 0;
  printf("| fault | seeds | s | what shows it |\n|---|---|---|---|\n");
  for (const Hunted& each : faults) {
    sim_fault = each.fault;
    std::string what;
    const double begin = seconds();
    const std::uint64_t found = hunt(first, each.most, time, what);
    printf("| %s | ", each.fault);
    if (found == 0) printf("not found | %.1f | |\n", seconds() - begin);
    else printf("%llu | %.2f | %s |\n", static_cast<unsigned long long>(found), seconds() - begin, what.c_str());
    fflush(stdout);
    missing += found == 0;
  }
  sim_fault = nullptr;
  printf("%zu of %zu faults found\n", faults.size() - missing, faults.size());
  return missing;
}

bool read_list(const char* path, std::vector<Hunted>& faults) {
  FILE* file = fopen(path, "r");
  if (file == nullptr) return false;
  char line[200];
  while (fgets(line, sizeof(line), file) != nullptr) {
    line[strcspn(line, "\n")] = 0;
    char* name = nullptr;
    const std::uint64_t most = strtoull(line, &name, 10);
    if (most != 0) faults.push_back({known_fault(name + 1), most});
  }
  fclose(file);
  return true;
}

constexpr char kUsage[] =
    "simulator --seeds A..B [--go-on]       runs these seeds; ends with the first that fails\n"
    "simulator --seed S [--trace]           runs this one, and says what happens\n"
    "simulator ... --fresh N                then N seeds from the clock's on\n"
    "simulator --fault NAME ...             the same with a planted fault\n"
    "simulator --faults                     lists them\n"
    "simulator --hunt SECONDS [--first S]   how many seeds each fault needs to be found, at most so long each\n"
    "simulator --list FILE [--first S]      the same of faults that must be found: a line each, SEEDS NAME\n";

int run(int argc, char** argv) {
  Range range;
  bool trace = false, goes_on = false, good = true;
  double time = 1e9;
  std::uint64_t first = 1'000'000, fresh = 0;
  std::vector<Hunted> faults;
  const char* list = nullptr;
  for (int i = 1; i < argc && good; ++i) {
    const std::string_view option = argv[i];
    if (option == "--trace" || option == "--go-on") {
      (option == "--trace" ? trace : goes_on) = true;
      continue;
    }
    if (option == "--faults") {
      for (const char* name : kFaults) puts(name);
      return 0;
    }
    const char* value = ++i < argc ? argv[i] : "";
    if (option == "--seed" || option == "--seeds") good = read_range(value, range);
    else if (option == "--fresh") good = (fresh = strtoull(value, nullptr, 0)) != 0;
    else if (option == "--fault") sim_fault = known_fault(value);
    else if (option == "--first") first = strtoull(value, nullptr, 0);
    else if (option == "--list") good = read_list(list = value, faults);
    else if (option == "--hunt") {
      good = (time = strtod(value, nullptr)) > 0;
      for (const char* fault : kFaults) faults.push_back({fault, ~std::uint64_t{0}});
    } else good = false;
  }
  if (!good) {
    fputs(kUsage, stderr);
    return 2;
  }
  if (!faults.empty()) return hunt_all(faults, first, time) != 0 && list != nullptr;
  unsigned failures = run_seeds(range, trace, goes_on);
  if (fresh != 0) failures += run_seeds(fresh_seeds(fresh), trace, goes_on);
  return failures != 0;
}

}  // namespace
}  // namespace freeway::sim

int main(int argc, char** argv) {
  freeway::sim::World::boot(argc, argv);
  freeway::sim::program = argv[0];
  return freeway::sim::run(argc, argv);
}
