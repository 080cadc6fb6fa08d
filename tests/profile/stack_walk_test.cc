// SPDX-License-Identifier: MIT
//
// profile_stack_walk_test.cc: following frame pointers reads nothing that is not there, whatever lies in them, and
// ends.
#include "profile/stack_walk.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <set>
#include <vector>

#include "tests/support/random.h"

namespace freeway::profile {
namespace {

constexpr std::size_t kPage = 4096, kWords = kPage / 8;
constexpr u64 kCode = 0x400000;

// Two pages of "stack", and one behind them that cannot be read.
class Stacks : public testing::Test {
 protected:
  Stacks() {
    memory_ = static_cast<u64*>(mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + 2 * kWords, kPage, PROT_NONE);
  }
  ~Stacks() override { munmap(memory_, 3 * kPage); }

  uptr at(std::size_t word) const { return reinterpret_cast<uptr>(memory_ + word); }
  // A frame at word `from` whose caller's is at word `to`.
  void frame(std::size_t from, std::size_t to, u64 back) {
    memory_[from] = at(to);
    memory_[from + 1] = back;
  }
  std::vector<u64> walk(std::size_t from, unsigned most = kMostFrames, u64 dropped = 0) {
    u64 out[kMostFrames];
    asked_.clear();
    const unsigned count = walk_stack(
        at(from), kPage, out, most,
        [&](uptr page) {
          asked_.insert(page);
          return page >= at(0) && page < at(2 * kWords);
        },
        [&](u64 address) { return address != dropped; });
    return {out, out + count};
  }

  u64* memory_;
  std::set<uptr> asked_;
};

TEST_F(Stacks, ReturnAddressesTheInnermostFirst) {
  frame(10, 20, kCode + 1), frame(20, 600, kCode + 2), frame(600, 0, kCode + 3);
  EXPECT_EQ(walk(10), (std::vector<u64>{kCode + 1, kCode + 2, kCode + 3}));
  EXPECT_EQ(asked_, std::set<uptr>{at(512)}) << "a page is asked about once, and that of the first frame is there";
}
TEST_F(Stacks, WhatIsNotKeptIsPassed) {
  frame(10, 20, kCode + 1), frame(20, 30, kCode + 2), frame(30, 0, kCode + 3);
  EXPECT_EQ(walk(10, kMostFrames, kCode + 1), (std::vector<u64>{kCode + 2, kCode + 3}));
}
TEST_F(Stacks, AtMostSoManyAsThereIsRoomFor) {
  for (std::size_t i = 0; i < 400; i += 2) frame(i, i + 2, kCode + i);
  EXPECT_EQ(walk(0).size(), kMostFrames);
  EXPECT_EQ(walk(0, 5).size(), 5u);
}
TEST_F(Stacks, EndsAtAFrameThatIsNotAbove) {
  frame(10, 20, kCode + 1), frame(20, 10, kCode + 2);
  EXPECT_EQ(walk(10).size(), 2u) << "a circle";
  frame(20, 20, kCode + 2);
  EXPECT_EQ(walk(10).size(), 2u) << "itself";
}
TEST_F(Stacks, EndsWhereNothingCanBeRead) {
  frame(10, 2 * kWords + 5, kCode + 1);
  EXPECT_EQ(walk(10).size(), 1u) << "a page that may not be read";
  frame(10, 2 * kWords - 1, kCode + 1);
  EXPECT_EQ(walk(10).size(), 1u) << "a frame of which half may not be read";
}
TEST_F(Stacks, EndsAtWhatIsNoAddressOfCode) {
  frame(10, 20, kCode + 1), frame(20, 30, 7);
  EXPECT_EQ(walk(10).size(), 1u);
}
TEST_F(Stacks, EndsAtAFrameThatIsNotAligned) {
  frame(10, 20, kCode + 1);
  memory_[10] += 4;
  EXPECT_EQ(walk(10).size(), 1u);
}
// In the place of frames: anything. The walk ends, and asks before it reads: else it would fault.
TEST_F(Stacks, ReadsOnlyWhatMayBeReadWhateverLiesThere) {
  test::Random random(test::test_seed());
  for (int round = 0; round < 20000; ++round) {
    for (std::size_t i = 0; i < 2 * kWords; i += 1 + random.next() % 40)
      memory_[i] = random.next() % 3 == 0 ? random.next() : at(random.next() % (3 * kWords));
    EXPECT_LE(walk(random.next() % (2 * kWords)).size(), kMostFrames);
  }
}

}  // namespace
}  // namespace freeway::profile
