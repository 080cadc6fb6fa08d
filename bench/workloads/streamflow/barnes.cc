// SPDX-License-Identifier: MIT
//
// barnes: an N-body simulation after Barnes and Hut. Threads build an octree node by node in each step and take it down
// in the next; most of the time goes into the forces, so the allocator shows more in the order of the nodes in memory
// than in the time of its calls. After Schneider, Antonopoulos and Nikolopoulos, "Scalable locality-conscious
// multithreaded memory allocation" (ISMM 2006), section 4 and Table 1: 131,072 bodies, d = 0.025, 10 iterations.
//
// One operation is one body moved by one step.
//   --preset streamflow   131,072 bodies, 10 steps of 0.025
//   --bodies --steps --seed
//   --threads (2), --shrink (divides the bodies), --profile
//
// Differs from the paper's: its program ran on the Hood library; neither its bodies (here two star clusters that meet)
// nor opening angle and softening (here the SPLASH-2 program's) are printed. The tree has one shape whoever builds it
// (barnes_hut.h), so that all threads find the same positions.
//
// Fitted to Table 1, not found: how many bodies' forces are one task (the number of objects), and how fast the clusters
// move (the share of remote frees).
#include "streamflow/barnes_hut.h"
#include "streamflow/preset.h"

namespace {

std::uint64_t checksum_of(const bodies::Body* all, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (const double coordinate : {all[i].position.x, all[i].position.y, all[i].position.z}) {
      std::uint64_t bits;
      std::memcpy(&bits, &coordinate, sizeof bits);
      sum = (sum ^ bits) * 0x9E3779B97F4A7C15u;
      sum ^= sum >> 32;
    }
  }
  return sum;
}

template <class Blocks> void measure(int argc, char** argv) {
  bodies::Parameters parameters = bodies::kStreamflow;
  const long bodies = bench::number_argument(argc, argv, "bodies", static_cast<long>(parameters.bodies));
  parameters.bodies = static_cast<std::size_t>(bench::scaled(argc, argv, bodies));
  parameters.steps = static_cast<unsigned>(bench::number_argument(argc, argv, "steps", parameters.steps));
  const auto seed = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "seed", 1));
  const auto threads = static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 2));

  bench::Stopwatch watch;
  std::uint64_t checksum = 0;
  {
    bench::Scheduler<Blocks> scheduler(threads);
    bodies::System<Blocks> system(parameters, seed);
    watch.start();
    for (unsigned step = 0; step < parameters.steps; ++step) system.step(scheduler);
    system.take_down(scheduler);
    watch.stop();
    checksum = checksum_of(system.all(), parameters.bodies);
  }
  bench::report("barnes", static_cast<double>(parameters.bodies) * parameters.steps, watch, checksum,
                bench::profile_extras<Blocks>());
}

}  // namespace

int main(int argc, char** argv) {
  bench::require_streamflow_preset(argc, argv);
  bench::with_blocks(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(argc, argv); });
}
