// SPDX-License-Identifier: MIT
//
// waste_test.cc: a dump says what superblocks waste, and which blocks pin it: size classes are those of the statistics,
// a block's share is what freeway_block_info says of its superblock, and of samples it is the truth but for chance.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <vector>

#include "tests/abi/abi_test.h"
#include "tests/profile/dump_reader.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr size_t kSize = 500;
constexpr uint64_t kShort = 71, kLong = 72, kDense = 73;

void* tagged_block(uint64_t tag) {
  Tagged tagged(tag);
  return hide(malloc(kSize));
}

// The block's share of what its superblock wastes.
size_t share_of(const void* block) {
  freeway_block_info_t info;
  EXPECT_NE(freeway_block_info(block, &info, sizeof info), 0u);
  return (info.superblock_size - info.superblock_live * info.size) / info.superblock_live;
}

TEST(Waste, SizeClassesAreThoseOfTheStatistics) {
  ASSERT_EQ(freeway_profile_start(4096), 0);
  std::vector<void*> blocks(3000);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = hide(malloc(i * 11));
  for (size_t i = 0; i < blocks.size(); i += 3) free(std::exchange(blocks[i], nullptr));
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
  const Dump dump = take_dump();
  EXPECT_EQ(dump.sum_of("superblocks"), stats.superblocks);
  EXPECT_EQ(dump.sum_of("live"), stats.live - stats.large - stats.huge);
  EXPECT_EQ(dump.sum_of("cached"), stats.cached);
  EXPECT_GE(dump.sum_of("bytes"), dump.sum_of("live") + stats.cached + stats.free_in_superblocks);
  uint64_t from = 0;
  for (const Facts& each : dump.classes) {
    EXPECT_GE(each.at("from"), from);
    EXPECT_GE(each.at("size"), each.at("from"));
    EXPECT_LE(each.at("sampled"), each.at("superblocks"));
    from = each.at("size") + 1;
  }
  EXPECT_GT(dump.sum_of("sampled"), 0u);
  for (void* block : blocks) free(block);
  freeway_profile_stop();
}

// Where all blocks are sampled, they lie where they lie. An aligned one's class is not that of its size.
void expect_shares_of_superblocks(size_t alignment) {
  ASSERT_EQ(freeway_profile_start(1), 0);
  std::vector<void*> blocks(3000);
  std::vector<size_t> shares;
  shares.reserve(blocks.size());
  for (void*& block : blocks) {
    Tagged tagged(kLong);
    block = hide(aligned_alloc(alignment, kSize));
  }
  Random random(test_seed());
  for (void*& block : blocks)
    if (random.next() % 10 != 0) free(std::exchange(block, nullptr));
  size_t size = 0;
  for (void* block : blocks) {
    if (block == nullptr) continue;
    shares.push_back(share_of(block));
    size = malloc_usable_size(block);
  }
  const Dump dump = take_dump();
  std::vector<uint64_t> pins = dump.pins_of_tag(kLong);
  std::sort(shares.begin(), shares.end());
  std::sort(pins.begin(), pins.end());
  EXPECT_EQ(pins, std::vector<uint64_t>(shares.begin(), shares.end()));
  for (const Sample& each : dump.samples) {
    if (each.tag == kLong && each.live != 0) { EXPECT_EQ(dump.pin_sizes.at(each.site), size); }
  }
  for (void* block : blocks) free(block);
  freeway_profile_stop();
}

TEST(Waste, SharesAreThoseOfTheirSuperblocks) {
  expect_shares_of_superblocks(16);
  expect_shares_of_superblocks(64);
  expect_shares_of_superblocks(1024);
}

TEST(Waste, AChildsAreItsOwn) {
  ASSERT_EQ(freeway_profile_start(1), 0);
  void* const block = tagged_block(kLong);
  const pid_t child = fork();
  if (child == 0) {
    const Dump before = take_dump();
    free(block);
    const Dump after = take_dump();
    _exit(before.sum_of("live") != 0 && before.pins_of_tag(kLong).size() == 1 && after.pins_of_tag(kLong).empty() ? 0
                                                                                                                  : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  free(block);
  freeway_profile_stop();
}

// A cache that lies close together, then a burst of blocks that go, with some between them that stay, then few that
// come and go. There are most of the cache's blocks, and it pins nothing.
TEST(Waste, OfSamplesIsTheTruthButForChance) {
  constexpr size_t kCached = 20000, kBurst = 100000, kKept = 1000, kInFlight = 1000, kRounds = 200000;
  ASSERT_EQ(freeway_profile_start(4096), 0);
  std::vector<void*> dense(kCached), burst(kBurst), kept(kKept), in_flight(kInFlight);
  for (void*& block : dense) block = tagged_block(kDense);
  for (size_t i = 0; i < kBurst; ++i) {
    burst[i] = tagged_block(kShort);
    if (i % (kBurst / kKept) == 0) kept[i / (kBurst / kKept)] = tagged_block(kLong);
  }
  Random random(test_seed());
  for (size_t i = kBurst; i-- > 1;) std::swap(burst[i], burst[random.next() % (i + 1)]);
  for (void* block : burst) free(block);
  for (size_t i = 0; i < kRounds; ++i) {
    void*& block = in_flight[random.next() % kInFlight];
    free(block);
    block = tagged_block(kShort);
  }
  const Dump dump = take_dump();
  const double probability = 1 - std::exp(-static_cast<double>(kSize) / 4096);
  const auto estimate = [&](uint64_t tag) {
    double bytes = 0;
    for (const uint64_t each : dump.pins_of_tag(tag)) bytes += static_cast<double>(each) / probability;
    return bytes;
  };
  // Of those that are not sampled: they stand for all.
  const auto truth = [&](const std::vector<void*>& blocks) {
    double bytes = 0;
    for (const void* block : blocks)
      if (block != nullptr) bytes += static_cast<double>(share_of(block));
    return bytes;
  };
  EXPECT_GT(estimate(kLong), 0.5 * truth(kept));
  EXPECT_LT(estimate(kLong), 2 * truth(kept));
  EXPECT_LT(estimate(kShort), estimate(kLong) / 2);
  EXPECT_LT(estimate(kDense), estimate(kLong) / 20) << "what lies close together wastes nothing";
  for (const auto* blocks : {&dense, &kept, &in_flight})
    for (void* block : *blocks) free(block);
  freeway_profile_stop();
}

}  // namespace
}  // namespace freeway::test
