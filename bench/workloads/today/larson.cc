// SPDX-License-Identifier: MIT
//
// larson: a server under load, after Larson and Krishnan, "Memory allocation for long-running server applications"
// (ISMM 1998): T lanes replace blocks at random; when a lane has done its share it hands its blocks to a thread that it
// starts, and ends. So blocks outlive the thread that made them, and their first owner was another thread (main makes
// them all and deals them out shuffled).
//
// One operation is one free and one malloc. --threads (lanes, 2), --slots (each lane, 1000), --generations (threads one
// after another in a lane, 50), --steps (of all together, 48000000), --min, --max (bytes, 8 and 1000), --shrink.
#include <latch>
#include <thread>

#include "support/measure.h"

namespace {

struct Plan {
  std::size_t slots;
  long generations;
  long steps_each;
  std::uint64_t min, max;
};

// What one thread of a lane hands to the next.
struct alignas(128) Lane {
  void** blocks;
  bench::Random random;
  std::uint64_t checksum = 0;
};

void run_generation(const Plan& plan, Lane& lane) {
  bench::Random random = lane.random;
  std::uint64_t checksum = lane.checksum;
  for (long i = 0; i < plan.steps_each; ++i) {
    const std::uint64_t bits = random.next();
    void*& block = lane.blocks[((bits & 0xffff'ffffu) * plan.slots) >> 32];
    checksum += bench::stamp_of(block);
    std::free(block);
    block = bench::must_malloc(plan.min + (((bits >> 32) * (plan.max - plan.min + 1)) >> 32));
    bench::stamp(block, bits);
  }
  lane.random = random;
  lane.checksum = checksum;
}

// Each generation starts the next one and ends; only the last of a lane reports to main.
void live(const Plan& plan, Lane& lane, std::latch& done, long generation) {
  run_generation(plan, lane);
  if (generation + 1 == plan.generations)
    done.count_down();
  else
    std::thread(live, std::cref(plan), std::ref(lane), std::ref(done), generation + 1).detach();
}

}  // namespace

int main(int argc, char** argv) {
  const long threads = bench::number_argument(argc, argv, "threads", 2);
  Plan plan{};
  plan.slots = static_cast<std::size_t>(bench::number_argument(argc, argv, "slots", 1000));
  plan.generations = bench::number_argument(argc, argv, "generations", 50);
  plan.min = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "min", 8));
  plan.max = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "max", 1000));
  const long steps = bench::number_argument(argc, argv, "steps", 48'000'000);
  plan.steps_each = bench::scaled(argc, argv, steps / threads / plan.generations);

  bench::MappedArray<void*> blocks(plan.slots * static_cast<std::size_t>(threads));
  bench::Random random(7);
  for (auto& block : blocks) bench::stamp(block = bench::must_malloc(random.between(plan.min, plan.max)), 1);
  blocks.shuffle(random);

  std::latch done(threads);
  bench::Stopwatch watch;
  watch.start();
  std::uint64_t checksum = 0;
  {
    std::vector<Lane> lanes;
    for (std::size_t t = 0; t < static_cast<std::size_t>(threads); ++t)
      lanes.push_back(Lane{&blocks[t * plan.slots], bench::Random(t + 100)});
    for (auto& lane : lanes) std::thread(live, std::cref(plan), std::ref(lane), std::ref(done), 0).detach();
    done.wait();
    for (const Lane& lane : lanes) checksum += lane.checksum;
  }
  watch.stop();
  for (void* block : blocks) {
    checksum += bench::stamp_of(block);
    std::free(block);
  }
  bench::report("larson", static_cast<double>(plan.steps_each * plan.generations * threads), watch, checksum);
}
