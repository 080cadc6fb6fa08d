// SPDX-License-Identifier: MIT
//
// false_sharing_test.cc: foreign blocks go home (src/cache/homes.h). Two threads on two CPUs exchange small blocks so
// that each has neighbours of the other's in its magazine; then each only allocates and frees its own. After a bounded
// number of frees no cache line holds blocks of both. Addresses are compared, nothing is timed.
#include <freeway/freeway.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "tests/abi/abi_test.h"
#include "tests/support/cpu_affinity.h"

namespace freeway::test {
namespace {

constexpr size_t kBlocks = 24, kLine = 64;
// A foreign block that a round uses is freed once in it, and one such free in 65 sends that block home, at least:
// whatever was exchanged has gone home after so many rounds.
constexpr size_t kRoundsUntilHome = 65 * kBlocks;

// Both threads, in turns that each waits for: what is done, and in which order, does not depend on their speed.
class Turns {
 public:
  template <class F> void take(unsigned self, F&& f) {
    while (turn_.load(std::memory_order_acquire) % 2 != self) std::this_thread::yield();
    f();
    turn_.fetch_add(1, std::memory_order_release);
  }

 private:
  std::atomic<unsigned> turn_{0};
};

// Without memory of its own: what a thread allocates is what is looked at.
struct Side {
  char* blocks[kBlocks] = {};
  bool stays = false;

  void allocate(size_t size) {
    for (char*& block : blocks)
      if ((block = static_cast<char*>(malloc(size))) == nullptr) abort();
  }
  void release() {
    for (size_t i = kBlocks; i-- > 0;) free(blocks[i]);
  }
};

uintptr_t line_of(const char* address) { return reinterpret_cast<uintptr_t>(address) / kLine; }

// Pairs of blocks that have a line in common.
size_t shared_lines(const Side& a, const Side& b, size_t size) {
  size_t count = 0;
  for (const char* one : a.blocks)
    for (const char* other : b.blocks)
      count += line_of(one) <= line_of(other + size - 1) && line_of(other) <= line_of(one + size - 1);
  return count;
}

// Whether blocks shared lines, and do no more.
bool went_home(const std::vector<int>& cpus, size_t size) {
  Side sides[2];
  Turns turns;
  size_t shared_at_first = 0, shared_at_last = 0;
  const auto live = [&](unsigned self) {
    Side &mine = sides[self], &other = sides[1 - self];
    mine.stays = freeway_test::stay_on(cpus[self]);
    turns.take(self, [&] { mine.allocate(size); });
    turns.take(self, [&] {  // every other block is the other thread's from now on
      for (size_t i = 0; self == 0 && i < kBlocks; i += 2) std::swap(mine.blocks[i], other.blocks[i]);
    });
    turns.take(self, [&] { mine.release(); });
    turns.take(self, [&] { mine.allocate(size); });
    turns.take(self, [&] {
      if (self == 1) shared_at_first = shared_lines(mine, other, size);
    });
    mine.release();
    for (size_t i = 0; i < kRoundsUntilHome; ++i) {
      mine.allocate(size);
      mine.release();
    }
    mine.allocate(size);
    turns.take(self, [] {});
    turns.take(self, [&] {
      if (self == 1) shared_at_last = shared_lines(mine, other, size);
    });
    mine.release();
  };
  std::thread one(live, 0u), two(live, 1u);
  one.join();
  two.join();
  EXPECT_TRUE(sides[0].stays && sides[1].stays);
  std::printf("  %zu bytes: %zu pairs of blocks share a line at first, %zu at last\n", size, shared_at_first,
              shared_at_last);
  return shared_at_first > kBlocks / 8 && shared_at_last == 0;
}

// Two threads that other processes keep from running at the same time may get one slab by turns (mm_cid): then they
// share what they allocate from it. So it is tried again; where nothing goes home, it never does.
constexpr int kTries = 20;

TEST(FalseSharing, BlocksOfForeignLinesGoHome) {
  const std::vector<int> cpus = freeway_test::usable_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU";
  for (const size_t size : {16, 32, 48}) {
    int tries = 0;
    while (tries < kTries && !went_home(cpus, size)) ++tries;
    EXPECT_LT(tries, kTries) << size << " bytes";
  }
}

}  // namespace
}  // namespace freeway::test
