// SPDX-License-Identifier: MIT
//
// fork_copies: how many pages the kernel must copy when a forked child frees 90 % of 10^6 blocks of 128 bytes. An
// allocator that links free blocks through themselves writes to every page; one that keeps its books elsewhere does
// not.
//
// pages_copied: growth of the child's private dirty memory over the frees. The time is the child's for the frees; one
// operation is one free. --count (10^6), --size (bytes, 128), --shrink.
#include <sys/wait.h>

#include "support/measure.h"
#include "support/memory_use.h"

namespace {

struct FromChild {
  bench::Stopwatch freeing;
  long pages_copied, faults;
};

long minor_faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>(bench::scaled(argc, argv, 1'000'000));
  const auto size = static_cast<std::size_t>(bench::number_argument(argc, argv, "size", 128));
  bench::MappedArray<void*> blocks(count);
  // Shared, so that the child's answer does not cost a copy.
  bench::MappedArray<FromChild> answer(1, MAP_SHARED);
  bench::Random random(11);
  for (auto& block : blocks) {
    block = bench::must_malloc(size);
    std::memset(block, 1, size);
    bench::escape(block);
  }
  const std::size_t kept = count / 10;
  // Which blocks go is random, the order in which they go is that of allocation.
  bench::MappedArray<bool> goes(count);
  for (std::size_t i = 0; i < count; ++i) goes[i] = i >= kept;
  goes.shuffle(random);
  (void)bench::rollup_kib("Private_Dirty:");
  const pid_t child = fork();
  if (child < 0) bench::die("fork");
  if (child == 0) {
    (void)bench::rollup_kib("Private_Dirty:");  // writes its buffer's pages before the count starts
    const long before = bench::rollup_kib("Private_Dirty:");
    const long faults = minor_faults();
    bench::Stopwatch freeing;
    freeing.start();
    for (std::size_t i = 0; i < count; ++i)
      if (goes[i]) std::free(blocks[i]);
    freeing.stop();
    const long after_faults = minor_faults();
    answer[0] = {freeing, (bench::rollup_kib("Private_Dirty:") - before) / 4, after_faults - faults};
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) {
    std::fprintf(stderr, "the child failed: status %d\n", status);
    return 1;
  }
  std::uint64_t checksum = 0;
  for (void* block : blocks) checksum += bench::stamp_of(block);  // the parent's blocks are untouched
  const double ops = static_cast<double>(count - kept);
  bench::report("fork_copies", ops, answer[0].freeing, checksum,
                {{"pages_copied", static_cast<double>(answer[0].pages_copied)},
                 {"child_faults", static_cast<double>(answer[0].faults)},
                 {"free_ns", bench::ns_each(answer[0].freeing.cpu(), ops)}});
}
