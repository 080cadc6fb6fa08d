// SPDX-License-Identifier: MIT
//
// How many pages a forked child copies when it frees most of a large heap: free blocks are bits beside the heap, so
// freeing writes to none of the blocks' pages. Counted by the kernel, as private dirty memory and as page faults. This
// is a figure that does not depend on time or load, so it is asserted.
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdio>
#include <utility>

#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"

namespace {
using namespace freeway_test;

constexpr size_t kBlocks = 1'000'000;
constexpr size_t kBytes = 128;
constexpr size_t kMostPages = 2000;  // writing a link into each freed block would copy over 30,000

struct Copied {
  size_t private_dirty;
  size_t faults;
};

size_t minor_faults() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_minflt);
}

void free_most_in_a_child(const Options& options) {
  Random random(options.seed);
  // The table and the answer lie outside the heap.
  const size_t table_bytes = kBlocks * sizeof(void*);
  void* memory =
      ::mmap(nullptr, table_bytes + sizeof(Copied), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "no mapping");
  void** blocks = static_cast<void**>(memory);
  Copied* copied = reinterpret_cast<Copied*>(static_cast<char*>(memory) + table_bytes);
  for (size_t i = 0; i < kBlocks; i++) {
    blocks[i] = ::malloc(kBytes);
    require(blocks[i] != nullptr, "no memory");
    stamp(blocks[i], kBytes, static_cast<uint32_t>(i));
  }
  for (size_t i = kBlocks - 1; i > 0; i--) std::swap(blocks[i], blocks[random.below(i + 1)]);

  const pid_t child = ::fork();
  if (child == 0) {
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t dirty_before = smaps_rollup_bytes("Private_Dirty");
    const size_t faults_before = minor_faults();
    for (size_t i = 0; i < kBlocks * 9 / 10; i++) ::free(blocks[i]);
    const size_t faults_after = minor_faults();
    copied->private_dirty = (smaps_rollup_bytes("Private_Dirty") - dirty_before) / page;
    copied->faults = faults_after - faults_before;
    for (size_t i = kBlocks * 9 / 10; i < kBlocks; i++)
      verify(blocks[i], "a block that was kept is damaged in the child");
    require_clean_audit("audit in the child that freed most of the heap");
    ::_exit(0);
  }
  require_child_success(child, "the child failed");
  Line().count(copied->private_dirty, "pages copied").count(copied->faults, "minor faults").write_to(1);
  for (size_t i = 0; i < kBlocks; i++) verify(blocks[i], "a block is damaged in the parent");
  for (size_t i = 0; i < kBlocks; i++) ::free(blocks[i]);
  if (rseq_mode() || !freeway_is_malloc())
    require(copied->private_dirty <= kMostPages && copied->faults <= kMostPages, "freeing copied too many pages",
            copied->private_dirty, copied->faults);
}

}  // namespace

int main(int argc, char** argv) { return run_cases(argc, argv, {{"free_most_in_a_child", free_most_in_a_child}}); }
