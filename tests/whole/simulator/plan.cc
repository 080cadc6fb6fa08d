// SPDX-License-Identifier: MIT
//
// plan.cc: what a seed decides: each leaves many kinds of things out, so that the others come close together, and some
// are about one thing, which comes often then.
#include <initializer_list>
#include <utility>

#include "tests/whole/simulator/kernel.h"
#include "tests/whole/simulator/library/inside.h"
#include "tests/whole/simulator/state.h"
#include "tests/whole/simulator/world.h"

extern "C" {
extern char** sim_environment;
extern char sim_single_threaded;
extern unsigned sim_rseq_size;
extern unsigned long sim_feature_size;
extern unsigned sim_address_bits;
}

namespace freeway::sim {
namespace {

constexpr std::uint64_t kUsually[kCalls] = {60, 40, 8, 6, 6, 3, 1, 2, 2, 1, 1, 1, 2, 20, 1, 1, 4, 3};

// Before the plan's other choices, which look at the weights.
void weigh(Theme theme, Random& random) {
  Plan& plan = state.plan;
  auto& weights = plan.weights;
  const auto only = [&](std::initializer_list<std::pair<Call, std::uint64_t>> calls) {
    for (auto& weight : weights) weight = 0;
    for (const auto& [what, weight] : calls) weights[what] = weight;
  };
  switch (theme) {
    case kHeaps:
      only({{kMalloc, 4},
            {kFree, 20},
            {kHeapNew, 8},
            {kHeapMalloc, 40},
            {kHeapDestroy, 8},
            {kHeapTrim, 4},
            {kTrim, 6},
            {kRealloc, 3},
            {kAsk, 3}});
      break;
    case kSpare: only({{kMalloc, 30}, {kFree, 30}, {kTrim, 10}, {kTrimStep, 4}, {kIdle, 4}}); break;
    case kPages:
      only({{kMalloc, 30}, {kFree, 30}, {kRealloc, 24}, {kCalloc, 10}, {kTrim, 6}, {kTrimStep, 6}, {kAligned, 4}});
      break;
    case kLimits: only({{kMalloc, 30}, {kFree, 24}, {kLimit, 6}, {kCalloc, 4}, {kTrim, 1}}); break;
    case kGuards:
      only({{kMalloc, 40},
            {kFree, 36},
            {kRealloc, 10},
            {kAsk, 20},
            {kHeapNew, 3},
            {kHeapMalloc, 20},
            {kHeapDestroy, 3}});
      break;
    case kProfiles:
      only({{kMalloc, 40}, {kFree, 36}, {kProfile, 14}, {kRealloc, 4}, {kAligned, 4}});
      plan.every_block = random.one_in(2);
      if (plan.every_block) weights[kProfile] = 2;
      break;
    case kSuperblocks: only({{kMalloc, 40}, {kFree, 36}, {kTrim, 2}, {kTrimStep, 3}, {kBatch, 4}, {kMove, 3}}); break;
    default: return;
  }
  for (auto& weight : weights)
    if (random.one_in(4)) weight *= 4;
  if (weights[kFree] == 0) weights[kFree] = 1;
}

// After them.
void stress(Theme theme, Random& random) {
  Plan& plan = state.plan;
  switch (theme) {
    case kSpare: sim_rseq_size = 0; break;
    case kPages:
    case kSmallSpace:
      plan.large_one_in = random.between(1, 2);
      plan.most_blocks = static_cast<unsigned>(random.between(4, 16));
      if (random.one_in(2)) break;
      plan.ballast = random.between(40, 64) * kFrame;
      plan.largest = 2 * kFrame;  // full chunks
      plan.most_blocks = static_cast<unsigned>(random.between(30, 60));
      break;
    case kLimits: plan.large_one_in = random.between(1, 3); break;
    case kSuperblocks:
      // A few blocks each: they fill and empty often.
      for (std::size_t& size : plan.sizes) size = std::size_t{4096} << random.below(4);
      plan.large_one_in = plan.any_size_one_in = 0;
      plan.most_blocks = static_cast<unsigned>(random.between(30, 200));
      break;
    case kGuards:
      plan.guarded = true;
      plan.options.push_back("FREEWAY_GUARD=" + std::to_string(random.between(1, 3)) +
                             (random.one_in(2) ? ",large" : ""));
      if (random.one_in(2)) plan.large_one_in = random.between(1, 3);
      break;
    case kStart:
      plan.calls = static_cast<unsigned>(random.between(1, 4));
      world.pace = std::uint64_t{1} << random.below(5);
      world.weights[kSignal] = 20;
      break;
    default: break;
  }
  if (theme != kSmallSpace) return;
  // No window: the arenas lie where the kernel puts them, and it has no long ones.
  sim_address_bits = 35;
  kernel.longest = std::size_t{4} << (20 + random.below(4));
}

}  // namespace

void make_plan(std::uint64_t seed) {
  state = State();
  Random& random = state.random;
  random = Random(~seed);
  Plan& plan = state.plan;
  plan.threads = static_cast<int>(random.between(1, kMostProgramThreads));
  world.cpus = static_cast<unsigned>(random.between(1, 4));
  world.nodes = random.one_in(5) ? 2 : 1;
  world.pace = std::uint64_t{2} << random.below(8);
  plan.calls = static_cast<unsigned>(random.between(10, 240) / static_cast<unsigned>(plan.threads)) + 8;
  // Calls: each kind but malloc and free may be left out, and some come more often.
  for (int i = 0; i < kCalls; ++i) {
    plan.weights[i] = kUsually[i];
    if (i > kFree && random.one_in(2)) plan.weights[i] = 0;
    if (random.one_in(6)) plan.weights[i] *= 8;
  }
  if (random.one_in(2)) plan.weights[kHeapNew] = plan.weights[kHeapMalloc] = 0;
  const Theme theme = random.one_in(3) ? kMixed : static_cast<Theme>(random.below(kThemes));
  weigh(theme, random);
  plan.limits = plan.weights[kLimit] != 0;
  constexpr std::size_t kSizes[] = {16, 32, 64, 112, 576, 1024, 4096, 8192, 16384, 32768};
  plan.size_count = static_cast<unsigned>(random.between(1, 4));
  for (unsigned i = 0; i < plan.size_count; ++i) plan.sizes[i] = kSizes[random.below(10)];
  plan.large_one_in = random.one_in(2) ? 0 : random.between(2, 20);
  plan.any_size_one_in = random.one_in(2) ? 0 : random.between(2, 30);
  plan.remote = random.one_in(3) ? 90 : random.below(100);
  plan.most_blocks = static_cast<unsigned>(random.between(4, random.one_in(4) ? 300 : 60));
  // Events.
  constexpr std::uint64_t kWeights[kEvents] = {40, 6, 6, 3, 1, 4, 1, 1};
  for (int i = 0; i < kEvents; ++i)
    world.weights[i] = i == kSwitch || !random.one_in(2) ? kWeights[i] << random.below(3) : 0;
  if (world.weights[kKill] != 0) world.kills_left = static_cast<unsigned>(random.between(1, 3));
  if (world.weights[kFork] != 0 && random.one_in(6)) world.forks_left = 1;
  world.audits_left = static_cast<unsigned>(random.below(8));
  world.signals_left = static_cast<unsigned>(random.between(1, 60));
  // The kernel.
  kernel.random = Random(seed ^ 0x6b65726e656c);
  if (random.one_in(4)) kernel.refused_one_in = random.between(2, 40);
  if (random.one_in(12)) kernel.most_mappings = random.between(6, 40);
  sim_address_bits = random.one_in(6) ? 38 : 36;
  kernel.page = random.one_in(6) ? 16384 : random.one_in(12) ? 65536 : 4096;
  if (random.one_in(theme == kPages ? 2 : 10))
    for (std::uint64_t i = random.between(1, 6); i > 0; --i)
      kernel.occupy((sim_address_bits == 36 ? Kernel::kBegin : Kernel::kFarBegin) + random.between(1, 1024) * kFrame,
                    random.between(1, 20) * kFrame);
  // How the library is set.
  sim_rseq_size = random.one_in(4) ? 0 : 20;
  sim_feature_size = random.one_in(5) ? 20 : 28;
  sim_single_threaded = 1;
  if (random.one_in(6)) {
    plan.hardened = true;
    const char* kinds[] = {"FREEWAY_HARDEN=1", "FREEWAY_HARDEN=1,quarantine=4096", "FREEWAY_HARDEN=1,fill"};
    plan.options.push_back(kinds[random.below(3)]);
  }
  if (theme != kGuards && random.one_in(8)) {
    plan.guarded = true;
    plan.options.push_back("FREEWAY_GUARD=" + std::to_string(random.between(1, 10)) +
                           (random.one_in(2) ? ",large" : ""));
  }
  if (random.one_in(4)) plan.options.push_back("FREEWAY_BACKGROUND=1");
  if (random.one_in(20)) plan.options.push_back("FREEWAY_PURGE=never");
  if (random.one_in(20)) plan.options.push_back(random.one_in(2) ? "FREEWAY_HUGE=always" : "FREEWAY_HUGE=never");
  stress(theme, random);
  if (theme == kProfiles && random.one_in(2)) {
    const World::Quiet quiet;
    sim_small_profile();
  }
  for (std::string& option : plan.options) state.environment.push_back(option.data());
  state.environment.push_back(nullptr);
  sim_environment = state.environment.data();
}

}  // namespace freeway::sim
