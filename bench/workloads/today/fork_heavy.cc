// SPDX-License-Identifier: MIT
//
// fork_heavy: a parent with a heap of 200,000 blocks that forks again and again, as servers with worker processes and
// snapshots do. Each child frees a random tenth of the heap, allocates as many blocks again, checks all that it was
// left, and ends; the parent meanwhile replaces blocks, so that pages are copied on its side, too.
//
//   child_us          wall time from fork's return in the child to its end: mean
//   fork_us           of the fork itself, in the parent: mean
//   child_faults      pages that a child got or copied: mean
// One operation is one free and one malloc in a child; the time is the children's. --children (20), --blocks (200000),
// --shrink (divides blocks). Sizes: 16 to 512 bytes.
#include <sys/wait.h>

#include "support/measure.h"
#include "support/memory_use.h"

namespace {

struct Held {
  void* block;
  std::uint64_t value;
};

struct Outcome {
  double wall, cpu;
  long faults;
  std::uint64_t checksum;
  long broken;
};

void put(Held& held, std::uint64_t bits) {
  held = {bench::must_malloc(16 + (bits >> 32) % 497), bits};
  bench::stamp(held.block, bits);
}

// A random tenth is replaced. Returns the sum of what was freed.
std::uint64_t replace(bench::MappedArray<Held>& heap, bench::MappedArray<std::uint32_t>& chosen, bench::Random& random,
                      long& broken) {
  for (auto& place : chosen) place = static_cast<std::uint32_t>(random.below(heap.size()));
  std::uint64_t checksum = 0;
  for (const std::uint32_t place : chosen) {
    Held& gone = heap[place];
    if (gone.block == nullptr) continue;  // chosen twice
    const std::uint64_t found = bench::stamp_of(gone.block);
    broken += found == gone.value ? 0 : 1;
    checksum += found;
    std::free(gone.block);
    gone.block = nullptr;
  }
  for (const std::uint32_t place : chosen)
    if (heap[place].block == nullptr) put(heap[place], random.next());
  return checksum;
}

long minor_faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

[[noreturn]] void child(bench::MappedArray<Held>& heap, bench::MappedArray<std::uint32_t>& chosen, std::uint64_t seed,
                        Outcome& outcome) {
  const long faults = minor_faults();
  bench::Stopwatch watch;
  watch.start();
  bench::Random random(seed);
  long broken = 0;
  std::uint64_t checksum = replace(heap, chosen, random, broken);
  watch.stop();
  const long more_faults = minor_faults() - faults;
  for (const Held& held : heap) {
    broken += bench::stamp_of(held.block) == held.value ? 0 : 1;
    checksum += held.value;
  }
  outcome = {watch.wall(), watch.cpu(), more_faults, checksum, broken};
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const long children = bench::number_argument(argc, argv, "children", 20);
  const auto blocks =
      static_cast<std::size_t>(bench::scaled(argc, argv, bench::number_argument(argc, argv, "blocks", 200'000)));
  bench::MappedArray<Held> heap(blocks);
  bench::MappedArray<std::uint32_t> chosen(blocks / 10 + 1);
  bench::MappedArray<Outcome> outcome(1, MAP_SHARED);
  bench::Random random(31);
  for (Held& held : heap) put(held, random.next());
  bench::Stopwatch forking, children_time;
  double child_wall = 0, faults = 0;
  long broken = 0;
  std::uint64_t checksum = 0;
  for (long n = 0; n < children; ++n) {
    forking.start();
    const pid_t made = fork();
    if (made < 0) bench::die("fork");
    if (made == 0) child(heap, chosen, static_cast<std::uint64_t>(n) + 100, outcome[0]);
    forking.stop();
    checksum += replace(heap, chosen, random, broken);
    int status = 0;
    if (waitpid(made, &status, 0) != made || status != 0) {
      std::fprintf(stderr, "a child failed: status %d\n", status);
      return 1;
    }
    checksum += outcome[0].checksum;
    broken += outcome[0].broken;
    child_wall += outcome[0].wall;
    faults += static_cast<double>(outcome[0].faults);
    children_time.add(outcome[0].wall, outcome[0].cpu);
  }
  if (broken != 0) {
    std::fprintf(stderr, "%ld blocks are not what was written\n", broken);
    return 1;
  }
  const auto each = static_cast<double>(children);
  bench::report("fork_heavy", each * static_cast<double>(chosen.size()), children_time, checksum,
                {{"child_us", child_wall * 1e6 / each},
                 {"fork_us", forking.wall() * 1e6 / each},
                 {"child_faults", faults / each}});
}
