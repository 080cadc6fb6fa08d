// SPDX-License-Identifier: MIT
//
// knary: a tree of small tasks on a work-stealing scheduler; the allocator serves many threads at once, and nearly
// every block is freed by the thread that allocated it. After Schneider, Antonopoulos and Nikolopoulos, "Scalable
// locality-conscious multithreaded memory allocation" (ISMM 2006), section 4 and Table 1: knary (11,5,0,0).
//
// One operation is one node: malloc of its frame of 40 bytes, its way through a deque, free.
//   --preset streamflow   depth 11, branching 5, serial 0, work 0: 61,035,156 nodes
//   --depth --branching --serial (children run one after another) --work (turns of a loop at each node)
//   --threads (2); --shrink (levels are cut off until there are that many times fewer nodes); --profile
//
// Differs from the paper's: its knary ran on the Hood library; the scheduler here is our own (work_stealing.h).
// Fitted to Table 1, not found: the frame's 40 bytes, and two large blocks for each worker.
#include "streamflow/knary_tree.h"
#include "streamflow/preset.h"

namespace {

unsigned part(int argc, char** argv, const char* name, unsigned fallback) {
  const char* text = bench::text_argument(argc, argv, name, nullptr);
  if (text == nullptr) return fallback;
  char* end = nullptr;
  const unsigned long value = std::strtoul(text, &end, 10);
  if (end == text || *end != '\0' || value > 60'000) {
    std::fprintf(stderr, "--%s wants a whole number up to 60000, not '%s'\n", name, text);
    std::exit(2);
  }
  return static_cast<unsigned>(value);
}

knary::Shape shape_of(int argc, char** argv) {
  knary::Shape shape = knary::kStreamflow;
  shape.depth = part(argc, argv, "depth", shape.depth);
  shape.branching = part(argc, argv, "branching", shape.branching);
  shape.serial = std::min(part(argc, argv, "serial", shape.serial), shape.branching);
  shape.work = part(argc, argv, "work", shape.work);
  const auto most = static_cast<std::uint64_t>(bench::scaled(argc, argv, static_cast<long>(knary::nodes(shape))));
  while (shape.depth > 0 && knary::nodes(shape) > most) --shape.depth;
  return shape;
}

template <class Blocks> void measure(int argc, char** argv) {
  const knary::Shape shape = shape_of(argc, argv);
  const auto threads = static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 2));
  bench::Stopwatch watch;
  knary::Result result;
  {
    bench::Scheduler<Blocks> scheduler(threads);
    knary::Tree<Blocks> tree(shape);
    watch.start();
    result = tree.grow(scheduler);
    watch.stop();
  }
  bench::report("knary", static_cast<double>(result.nodes), watch, result.checksum, bench::profile_extras<Blocks>());
}

}  // namespace

int main(int argc, char** argv) {
  bench::require_streamflow_preset(argc, argv);
  bench::with_blocks(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(argc, argv); });
}
