// SPDX-License-Identifier: MIT
//
// program.h: what the three programs share: arguments, the run, the result's line.
//
// One operation is one committed event. Arguments of all three:
//   --threads N        (1), at most one for each logical process
//   --sync S           sequential, conservative (default; the paper's) or timewarp
//   --end T            simulated time, in the model's unit; --shrink N divides it
//   --seed N           (1)
//   --window N         Time Warp: how far ahead of GVT events are executed at most, in thousandths of the unit
//   --gvt-interval N   Time Warp: events that a thread executes before it asks for a new GVT (1024)
//   --mapping M        of logical processes to threads: blocks (default: neighbours together) or round-robin. HMalloc
//                      (section 2.1) names both and does not say which one was used
//   --hint             blocks that the allocating thread frees come from freeway_malloc_local, where there is one
//   --profile          prints what was allocated instead of the figures below
// Printed: events rolled_back, anti_messages, rounds (windows, or agreements on GVT), allocations, and remote_percent,
// the frees by another thread than the allocating one. The checksum is that of the committed events: the same under
// every allocator, number of threads, mapping and synchronisation.
#ifndef FREEWAY_BENCH_SIMULATION_PROGRAM_H
#define FREEWAY_BENCH_SIMULATION_PROGRAM_H

#include <cstring>

#include "simulation/run.h"
#include "support/profile.h"

namespace simulation {

// All models: a millionth of the unit in which times are given, so that two events are rarely at the same tick.
constexpr Time kTicksPerUnit = 1'000'000;

class Arguments {
 public:
  Arguments(int argc, char** argv) : argc_(argc), argv_(argv) {}

  std::uint32_t number(const char* name, long fallback) const {
    return static_cast<std::uint32_t>(bench::number_argument(argc_, argv_, name, fallback));
  }
  const char* text(const char* name, const char* fallback) const {
    return bench::text_argument(argc_, argv_, name, fallback);
  }
  bool flag(const char* name) const { return bench::flag_argument(argc_, argv_, name); }

  // 0 to 100.
  std::uint32_t percent(const char* name, std::uint32_t fallback) const {
    const char* given = text(name, nullptr);
    if (given == nullptr) return fallback;
    char* end = nullptr;
    const long value = std::strtol(given, &end, 10);
    if (end == given || *end != '\0' || value < 0 || value > 100) wrong(name, "0 to 100", given);
    return static_cast<std::uint32_t>(value);
  }

  Mapping mapping() const {
    const char* given = text("mapping", "blocks");
    if (std::strcmp(given, "blocks") == 0) return Mapping::kBlocks;
    if (std::strcmp(given, "round-robin") == 0) return Mapping::kRoundRobin;
    wrong("mapping", "blocks or round-robin", given);
  }

  Synchronisation synchronisation() const {
    const char* given = text("sync", "conservative");
    if (std::strcmp(given, "sequential") == 0) return Synchronisation::kSequential;
    if (std::strcmp(given, "conservative") == 0) return Synchronisation::kConservative;
    if (std::strcmp(given, "timewarp") == 0) return Synchronisation::kTimeWarp;
    wrong("sync", "sequential, conservative or timewarp", given);
  }

  // The model's defaults: `end` in its unit, `window` in thousandths.
  Settings settings(long end, long window) const {
    Settings settings;
    settings.threads = number("threads", 1);
    settings.end = Time{number("end", end)} * kTicksPerUnit / number("shrink", 1);
    settings.seed = number("seed", 1);
    settings.window = Time{number("window", window)} * kTicksPerUnit / 1000;
    settings.gvt_interval = number("gvt-interval", 1024);
    settings.mapping = mapping();
    if (flag("hint")) settings.local = hmalloc_local();
    return settings;
  }

 private:
  [[noreturn]] static void wrong(const char* name, const char* wanted, const char* given) {
    std::fprintf(stderr, "--%s wants %s, not '%s'\n", name, wanted, given);
    std::exit(2);
  }

  int argc_;
  char** argv_;
};

// Runs `model` and prints the result.
template <class Model>
int run_program(const char* name, const Arguments& arguments, const Model& model, const Settings& settings) {
  const Outcome outcome = run(model, settings, arguments.synchronisation());
  const BlockCounts& blocks = outcome.blocks;
  if (blocks.allocated != blocks.freed) fail("blocks were lost");
  auto real = [](std::uint64_t count) { return static_cast<double>(count); };
  if (arguments.flag("profile"))
    bench::report(name, real(outcome.committed), outcome.watch, outcome.checksum,
                  {{"objects_small", real(blocks.allocated - blocks.large)},
                   {"objects_large", real(blocks.large)},
                   {"mean_size", blocks.mean_size()},
                   {"local_percent", blocks.local_percent()},
                   {"frees", real(blocks.freed)},
                   {"remote_percent", blocks.remote_percent()}});
  else
    bench::report(name, real(outcome.committed), outcome.watch, outcome.checksum,
                  {{"rolled_back", real(outcome.rolled_back)},
                   {"anti_messages", real(outcome.anti_messages)},
                   {"rounds", real(outcome.rounds)},
                   {"allocations", real(blocks.allocated)},
                   {"remote_percent", blocks.remote_percent()}});
  return 0;
}

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_PROGRAM_H
