// SPDX-License-Identifier: MIT
//
// Tests of heap/record_pool.h: what was pushed is popped once, whatever was given back meanwhile; what is given back is; refusals,
// handlers and threads that end at each step.
#include "heap/record_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "differential/random.h"
#include "unit/test_env.h"

namespace freeway {
namespace {

using test::Call;
using test::ended_at;
using test::kernel;
using test::TestEnv;

constexpr std::size_t kPage = 4096;

struct Records {
  Metadata<TestEnv> metadata;
  void* at(u32 index) const { return metadata.at(index); }
};

class HeapRecordPool : public testing::Test {
 protected:
  using Region = heap::Region<TestEnv>;
  HeapRecordPool() : records_(std::make_unique<Records>()) {
    kernel().reset();
    records_->metadata.init(Metadata<TestEnv>::kSegmentBytes);
    pool_.init(records_.get());
    for (int i = 0; i < 100; ++i) {
      if (i % 40 == 39) records_->metadata.take(7);  // something else lies between them
      mine_.push_back(records_->metadata.take(heap::kRecordUnits<Region>));
    }
    for (const u32 index : mine_) use(index);
  }
  ~HeapRecordPool() override { kernel().reset(); }

  Region& at(u32 index) { return *static_cast<Region*>(records_->at(index)); }
  void use(u32 index) {
    memset(static_cast<void*>(&at(index)), 0xa5, sizeof(Region));
    at(index).self.store_relaxed(index);
  }
  // In random order.
  void push_all() {
    test::Random random(1);
    for (std::size_t i = mine_.size(); i > 1; --i) std::swap(mine_[i - 1], mine_[random.below(i)]);
    for (const u32 index : mine_) pool_.push(index);
    mine_.clear();
  }
  // Each once, with its own number.
  void pop_all() {
    std::set<u32> seen;
    while (const u32 index = pool_.pop()) {
      EXPECT_TRUE(seen.insert(index).second) << "popped twice";
      EXPECT_EQ(at(index).self.load_relaxed(), index);
      mine_.push_back(index);
    }
  }
  std::size_t resident() {
    std::size_t bytes = 0;
    for (const auto& [begin, range] : kernel().ranges())
      if (range.accessible) bytes += kernel().resident(begin, range.end - begin);
    return bytes;
  }

  std::unique_ptr<Records> records_;
  heap::RecordPool<TestEnv, Records> pool_;
  std::vector<u32> mine_;
};

TEST_F(HeapRecordPool, WhatIsThereGoesBackAndComesAgain) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_GT(resident(), 100 * sizeof(Region));
    push_all();
    pool_.purge(kPage);
    EXPECT_LE(resident(), 3 * 2 * kPage) << "the first line of three bunches, and what lies between them";
    pop_all();
    EXPECT_EQ(mine_.size(), 100u);
    for (const u32 index : mine_) {
      const auto* bytes = reinterpret_cast<const char*>(&at(index));
      for (std::size_t i = 64; i < sizeof(Region); ++i) ASSERT_EQ(bytes[i], 0) << i;
      EXPECT_EQ(at(index).has_kinds.load_relaxed(), 0u);
      use(index);
    }
  }
}

TEST_F(HeapRecordPool, BunchesThatWereTakenInPartAreMadeAnew) {
  push_all();
  pool_.purge(kPage);
  for (int i = 0; i < 50; ++i) mine_.push_back(pool_.pop());
  for (const u32 index : mine_) use(index);
  for (std::size_t i = 0; i < mine_.size(); i += 2) pool_.push(mine_[i]);
  pool_.purge(kPage);
  std::vector<u32> kept;
  for (std::size_t i = 1; i < mine_.size(); i += 2) kept.push_back(mine_[i]);
  for (const u32 index : kept) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(&at(index));
    for (std::size_t i = 64; i < sizeof(Region); ++i) ASSERT_EQ(bytes[i], 0xa5) << "another's record";
  }
  mine_ = kept;
  pop_all();
  EXPECT_EQ(std::set<u32>(mine_.begin(), mine_.end()).size(), 100u);
}

TEST_F(HeapRecordPool, NothingIsDoneTwice) {
  push_all();
  pool_.purge(kPage);
  const u64 calls = kernel().calls(Call::kPurge);
  const std::size_t before = resident();
  pool_.purge(kPage);
  EXPECT_EQ(kernel().calls(Call::kPurge), calls);
  EXPECT_EQ(resident(), before);
}

TEST_F(HeapRecordPool, WhatTheKernelRefusesStays) {
  push_all();
  kernel().refuse_all(true);
  pool_.purge(kPage);
  kernel().refuse_all(false);
  pop_all();
  EXPECT_EQ(mine_.size(), 100u);
}

constexpr const char* kSteps[] = {"own.parting", "own.purging", "stack.push", "stack.pop", "stack.take_all"};

TEST_F(HeapRecordPool, HandlersUseTheSame) {
  for (const char* step : kSteps)
    for (unsigned skips = 0; skips < 8; ++skips) {
      const auto handler = [&] {
        std::vector<u32> some;
        for (int i = 0; i < 5; ++i)
          if (const u32 index = pool_.pop()) use(index), some.push_back(index);
        pool_.purge(kPage);
        for (const u32 index : some) pool_.push(index);
        pool_.purge(kPage);
      };
      TestEnv::at_step(step, handler, skips);
      push_all();
      pool_.purge(kPage);
      pop_all();
      TestEnv::step_left();
      pop_all();
      ASSERT_EQ(std::set<u32>(mine_.begin(), mine_.end()).size(), 100u) << step;
      for (const u32 index : mine_) use(index);
    }
}

// What it had in hand is lost; nothing is there twice.
TEST_F(HeapRecordPool, AThreadEndsForEver) {
  for (const char* step : kSteps) {
    push_all();
    ended_at(step, [&] {
      pool_.purge(kPage);
      while (const u32 index = pool_.pop()) use(index);
    });
    pop_all();
    for (const u32 index : mine_) use(index);
    mine_.clear();
    for (int i = 0; i < 100; ++i) mine_.push_back(records_->metadata.take(heap::kRecordUnits<Region>));
    for (const u32 index : mine_) use(index);
  }
}

}  // namespace
}  // namespace freeway
