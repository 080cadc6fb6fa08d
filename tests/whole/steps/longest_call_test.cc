// SPDX-License-Identifier: MIT
//
// How long the longest call was, in instructions of the allocator's own, in heaps that make calls long. The bounds are
// what GUARANTEES.md promises of Freeway; of the paper engines the figures are only recorded. A step takes some 30 us
// on virtual machines, so a short run sees a sample; the long one goes on for minutes.
#include "tests/whole/signal/support/case_runner.h"

#if defined(__x86_64__)
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "freeway/freeway.h"
#include "tests/support/engine_under_test.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"
#include "tests/whole/steps/step_counter.h"

namespace freeway_test {
namespace {

// A row: the longest of many calls.
class Longest {
 public:
  // `bound`: instructions; 0: depends on how much there is, so only told.
  Longest(const char* what, uint64_t bound) : what_(what), bound_(bound) {}

  template <class F> void step(F&& f) {
    const Steps steps = StepCounter::count(f);
    ++calls_;
    own_ = std::max(own_, steps.own);
    system_calls_ = std::max(system_calls_, steps.system_calls);
  }

  void write() const {
    freeway::test::proof("steps", what_, "calls stepped through", calls_);
    freeway::test::proof_most("steps", what_, "own instructions of the longest", own_);
    freeway::test::proof_most("steps", what_, "its system calls at most", system_calls_);
    if (bound_ == 0 || !freeway::test::on_flagship()) return;
    require(calls_ == 0 || own_ > 0, "no instruction was counted", calls_);
    require(own_ <= bound_, what_, own_, bound_);
  }

 private:
  const char* what_;
  uint64_t bound_, calls_ = 0, own_ = 0, system_calls_ = 0;
};

// The test's own tables are not in the heap that it looks at.
template <class T> class Table {
 public:
  explicit Table(size_t count) : count_(count) {
    void* memory = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "no table");
    data_ = static_cast<T*>(memory);
  }
  T& operator[](size_t i) { return data_[i]; }
  size_t size() const { return count_; }

 private:
  size_t count_;
  T* data_;
};

// Promised: at most 256 blocks go back to their superblocks in one call, each group of them in some 150 instructions,
// or 350 where its superblock becomes empty; 16 MiB are given back to the kernel. A search for frames looks at each 4
// MiB of the arenas once.
constexpr uint64_t kCall = 100'000;
constexpr uint64_t kChunk = 64;
constexpr uint64_t kUsable = 200;

// A mixed life: every call of a random replacement.
void small_blocks(const Options& options) {
  StepCounter::install();
  Random random(options.seed);
  Table<void*> table(512);
  Longest allocate("malloc, up to 32 KiB", kCall), release("free, up to 32 KiB", kCall);
  Longest zero("calloc, up to 1 KiB", kCall), aligned("aligned_alloc, up to 4 KiB", kCall);
  Longest resize("realloc, up to 1 KiB", 2 * kCall), usable("malloc_usable_size", kUsable);
  const Deadline deadline(options.seconds);
  for (uint64_t n = 0; n < 100 || !deadline.passed(); n++) {
    void*& block = table[random.below(table.size())];
    // The larger the blocks, the smaller the magazines, and the more calls go beyond them.
    const size_t size = random.one_in(2) ? random.between(4096, 32768) : random.between(1, 1024);
    release.step([&] { ::free(block); });
    switch (random.below(4)) {
      case 0: zero.step([&] { block = ::calloc(1, size % 1024); }); break;
      case 1: aligned.step([&] { block = ::aligned_alloc(size_t{32} << random.below(8), size); }); break;
      default: allocate.step([&] { block = ::malloc(size); });
    }
    require(block != nullptr, "no memory");
    size_t bytes = 0;
    usable.step([&] { bytes = ::malloc_usable_size(block); });
    require(bytes > 0, "a block of no bytes");
    if (bytes <= 1024) {
      const size_t other = random.between(1, 1024);
      resize.step([&] { block = ::realloc(block, other); });
    }
  }
  for (const Longest* each : {&allocate, &release, &zero, &aligned, &resize, &usable}) each->write();
}

// Most of one class, freed at random: each batch that goes back has blocks of as many superblocks as it can, and
// superblocks become empty and are listed all the time; then taken again.
void scattered_blocks(const Options& options) {
  StepCounter::install();
  Random random(options.seed);
  Longest allocate("malloc, superblocks scattered", kCall), release("free, superblocks scattered", kCall);
  const size_t stepped = static_cast<size_t>(50 + 50 * options.seconds);  // calls of each size
  for (const size_t size : {64u, 1024u, 8192u, 32768u}) {
    Table<void*> table(std::min<size_t>(50000, (size_t{64} << 20) / size));
    for (int round = 0; round < 2; round++) {
      for (size_t i = 0; i < table.size(); i++) {
        if (round == 0 || i >= stepped) table[i] = ::malloc(size);
        else allocate.step([&] { table[i] = ::malloc(size); });
        require(table[i] != nullptr, "no memory");
        *static_cast<char*>(table[i]) = 1;
      }
      for (size_t i = table.size(); i > 1; i--) std::swap(table[i - 1], table[random.below(i)]);
      for (size_t i = 0; i < table.size(); i++) {
        if (round == 0 || i >= 3 * stepped || !random.one_in(3)) ::free(table[i]);
        else release.step([&] { ::free(table[i]); });
      }
    }
  }
  allocate.write();
  release.write();
}

void large_blocks(const Options& options) {
  StepCounter::install();
  Random random(options.seed);
  Table<void*> table(24);
  Longest allocate("malloc, 32 KiB to 8 MiB", kCall), release("free, 32 KiB to 8 MiB", kCall);
  Longest resize("realloc to less, 32 KiB to 8 MiB", kCall);
  const Deadline deadline(options.seconds);
  for (uint64_t n = 0; n < 60 || !deadline.passed(); n++) {
    void*& block = table[random.below(table.size())];
    const size_t size = random.between(32769, random.one_in(8) ? 8u << 20 : 512u << 10);
    if (block != nullptr && random.one_in(3)) {  // shorter: copying is the C library's, and long
      const size_t less = std::max<size_t>(::malloc_usable_size(block) / 2, 40000);
      resize.step([&] { block = ::realloc(block, less); });
    } else {
      release.step([&] { ::free(block); });
      allocate.step([&] { block = ::malloc(size); });
    }
    require(block != nullptr, "no memory");
    *static_cast<char*>(block) = 1;
  }
  allocate.write();
  release.write();
  resize.write();
}

// No frame left in the primary arena: calls look through all of it. 64 GiB of addresses, hardly any memory.
void full_arenas(const Options& options) {
  if (options.seconds < 10) skip("a call that looks through 64 GiB is left to the long test: 700 000 steps");
  StepCounter::install();
  Random random(options.seed);
  constexpr size_t kBlock = size_t{64} << 20, kTaken = size_t{70} << 30;
  Table<void*> table(kTaken / kBlock);
  for (size_t i = 0; i < table.size(); i++) {
    table[i] = ::malloc(kBlock);
    if (table[i] == nullptr) skip("this machine grants no 70 GiB of address space");
  }
  constexpr uint64_t kBound = kCall + kChunk * (kTaken >> 22);
  Longest small("malloc, up to 32 KiB, 64 GiB taken", kBound), large("malloc, 4 MiB, 64 GiB taken", kBound);
  Longest release("free, 4 MiB, 64 GiB taken", kCall);
  for (int n = 0; n < 40; n++) {
    void* block = nullptr;
    small.step([&] { block = ::malloc(random.between(1, 32768)); });
    require(block != nullptr, "no memory");
    if (n % 10 == 0) {
      large.step([&] { block = ::malloc(size_t{4} << 20); });
      require(block != nullptr, "no memory");
      *static_cast<char*>(block) = 1;
      release.step([&] { ::free(block); });
    }
  }
  small.write();
  large.write();
  release.write();
}

// Memory is refused: caches are taken apart before the call fails.
void refused(const Options& options) {
  StepCounter::install();
  Random random(options.seed);
  Table<void*> table(4000);
  for (size_t i = 0; i < table.size(); i++) table[i] = ::malloc(random.between(1, 2048));
  for (size_t i = 0; i < table.size(); i += 2) ::free(std::exchange(table[i], nullptr));
  rlimit limit;
  ::getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = 1;
  ::setrlimit(RLIMIT_DATA, &limit);
  Longest small("malloc, up to 32 KiB, refused", 0), large("malloc, 200 GiB, refused", 0);
  while (::malloc(32768) != nullptr) continue;  // until there is none left
  void* block = nullptr;
  small.step([&] { block = ::malloc(32768); });
  require(block == nullptr, "a block where there are none left");
  large.step([&] { block = ::malloc(size_t{200} << 30); });
  require(block == nullptr, "200 GiB where nothing more is granted");
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_DATA, &limit);
  small.write();
  large.write();
}

// What goes through everything.
void whole_heap(const Options& options) {
  StepCounter::install();
  Random random(options.seed);
  Table<void*> table(1000);
  for (size_t i = 0; i < table.size(); i++) table[i] = ::malloc(random.between(1, 2048));
  for (size_t i = 0; i < table.size(); i++)
    if (!random.one_in(4)) ::free(std::exchange(table[i], nullptr));
  Longest stats("mallinfo2, 1 MiB", 0), trim("malloc_trim, 1 MiB", 0);
  stats.step([] { [[maybe_unused]] const struct mallinfo2 info = ::mallinfo2(); });
  trim.step([] { ::malloc_trim(0); });
  stats.write();
  trim.write();
}

}  // namespace
}  // namespace freeway_test

int main(int argc, char** argv) {
  using namespace freeway_test;
  return run_cases(argc, argv,
                   {{"small_blocks", small_blocks},
                    {"scattered_blocks", scattered_blocks},
                    {"large_blocks", large_blocks},
                    {"full_arenas", full_arenas},
                    {"refused", refused},
                    {"whole_heap", whole_heap}});
}
#else
int main() { freeway_test::skip("single steps are counted on x86-64 only"); }
#endif
