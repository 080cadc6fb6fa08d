// SPDX-License-Identifier: MIT
//
// stats.*: they are Freeway's, they agree with each other, and hold still until the epoch is written.
// malloc_stats_print tells the same.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "control.h"
#include "freeway/freeway.h"

namespace {

constexpr std::size_t kMuch = std::size_t{64} << 20;

struct Stats {
  std::size_t allocated = value_of<std::size_t>("stats.allocated");
  std::size_t active = value_of<std::size_t>("stats.active");
  std::size_t resident = value_of<std::size_t>("stats.resident");
  std::size_t mapped = value_of<std::size_t>("stats.mapped");
};

void expect_ordered(const Stats& s) {
  EXPECT_LE(s.allocated, s.active);
  EXPECT_LE(s.active, s.resident);
  EXPECT_LE(s.resident, s.mapped);
}

std::vector<void*> many(std::size_t size, std::size_t bytes) {
  std::vector<void*> blocks(bytes / size);
  for (void*& block : blocks) block = malloc(size);
  return blocks;
}

void free_all(const std::vector<void*>& blocks) {
  for (void* block : blocks) free(block);
}

TEST(Stats, StandStillUntilTheEpochIsWritten) {
  advance_epoch();
  const auto epoch = value_of<std::uint64_t>("epoch");
  const Stats before;
  const std::vector<void*> blocks = many(1000, kMuch);
  EXPECT_EQ(Stats().allocated, before.allocated);
  EXPECT_EQ(value_of<std::uint64_t>("epoch"), epoch);
  std::uint64_t now = 1;
  std::size_t size = sizeof now;
  ASSERT_EQ(mallctl("epoch", &now, &size, &now, sizeof now), 0);
  EXPECT_EQ(now, epoch + 1);
  const Stats after;
  EXPECT_GE(after.allocated, before.allocated + kMuch);
  EXPECT_LE(after.allocated, before.allocated + kMuch * 5 / 4);
  expect_ordered(after);
  free_all(blocks);
}

TEST(Stats, AreWhatFreewaySays) {
  const std::vector<void*> blocks = many(500, kMuch);
  void* large = malloc(10 << 20);
  freeway_stats_t s;
  freeway_stats(&s, sizeof s);
  advance_epoch();
  const Stats stats;
  EXPECT_EQ(stats.allocated, s.live);
  EXPECT_EQ(stats.active, s.mapped - s.dirty);
  EXPECT_EQ(value_of<std::size_t>("stats.metadata"), s.metadata);
  EXPECT_EQ(stats.resident, std::max(s.held, s.mapped - s.dirty));
  const std::size_t page = value_of<std::size_t>("arenas.page");
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.0.pactive"), stats.active / page);
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.0.pdirty"), s.dirty / page);
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.0.mapped"), stats.mapped);
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.0.resident"), stats.resident);
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.0.base"), s.metadata);
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.0.tcache_bytes"), s.cached);
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.0.large.allocated"), s.large + s.huge);
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.0.small.allocated"), s.live - s.large - s.huge);
  EXPECT_EQ(value_of<std::uint64_t>("stats.arenas.0.dirty_npurge"), s.purges);
  EXPECT_EQ(value_of<std::uint64_t>("stats.arenas.0.dirty_purged"), s.purged / page);
  free(large);
  free_all(blocks);
}

TEST(Stats, OfAllArenasAreThoseOfTheFirst) {
  free_all(many(500, kMuch));
  advance_epoch();
  const auto first = value_of<std::size_t>("stats.arenas.0.pactive");
  EXPECT_GT(first, 0u);
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.4096.pactive"), first);
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.1.pactive"), first) << "the count of arenas stands for all";
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.4097.pactive"), 0u) << "the destroyed ones";
  ASSERT_EQ(value_of<unsigned>("arenas.create"), 1u);
  EXPECT_EQ(value_of<std::size_t>("stats.arenas.1.pactive"), 0u);
  EXPECT_EQ(act("arena.1.destroy"), 0);
}

TEST(Purge, GivesMemoryBack) {
  for (const char* name : {"arena.0.purge", "arena.1.purge", "arena.4096.purge"}) {
    std::vector<void*> blocks = many(200 << 10, kMuch);
    for (void* block : blocks) std::memset(block, 1, 200 << 10);
    free_all(blocks);
    freeway_stats_t before, after;
    freeway_stats(&before, sizeof before);
    EXPECT_GT(before.dirty, 0u);
    EXPECT_EQ(act(name), 0);
    freeway_stats(&after, sizeof after);
    EXPECT_EQ(after.dirty, 0u) << name;
    EXPECT_GT(after.purged, before.purged) << name;
  }
}

TEST(Stats, AreOrderedWhileOthersAllocate) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (unsigned i = 0; i < 3; ++i)
    others.emplace_back([&stop, i] {
      while (!stop.load()) free_all(many(i == 0 ? 60000 : 100 * i, 4 << 20));
    });
  for (unsigned i = 0; i < 300; ++i) {
    advance_epoch();
    expect_ordered(Stats());
  }
  stop.store(true);
  for (std::thread& other : others) other.join();
}

std::string printed(const char* options) {
  std::string text;
  text.reserve(1 << 20);
  malloc_stats_print([](void* opaque, const char* more) { *static_cast<std::string*>(opaque) += more; }, &text,
                     options);
  return text;
}

TEST(Print, TellsTheSameFigures) {
  const std::vector<void*> blocks = many(1000, kMuch);
  const std::string text = printed(nullptr);
  const Stats stats;  // of the print's epoch
  EXPECT_TRUE(text.starts_with("___ Begin jemalloc statistics ___\n")) << text;
  EXPECT_TRUE(text.ends_with("--- End jemalloc statistics ---\n")) << text;
  EXPECT_GE(stats.allocated, kMuch);
  const std::string line =
      "Allocated: " + std::to_string(stats.allocated) + ", active: " + std::to_string(stats.active) +
      ", metadata: " + std::to_string(value_of<std::size_t>("stats.metadata")) +
      " (n_thp 0), resident: " + std::to_string(stats.resident) + ", mapped: " + std::to_string(stats.mapped) + "\n";
  EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_NE(text.find("opt.lg_prof_interval: -1\n"), std::string::npos) << text;
  EXPECT_EQ(printed("g").find("opt."), std::string::npos);
  free_all(blocks);
}

TEST(Print, GoesToMallocMessageWhereNobodyElseIsNamed) {
  static std::string text;
  text.reserve(1 << 16);
  malloc_message = [](void*, const char* more) { text += more; };
  malloc_stats_print(nullptr, nullptr, "g");
  malloc_message = nullptr;
  EXPECT_TRUE(text.starts_with("___ Begin jemalloc statistics ___\n")) << text;
}

TEST(Print, GoesToStandardErrorAtFirst) {
  testing::internal::CaptureStderr();
  malloc_stats_print(nullptr, nullptr, "g");
  EXPECT_TRUE(testing::internal::GetCapturedStderr().starts_with("___ Begin jemalloc statistics ___\n"));
}

TEST(Print, WritesJson) {
  // Whether it is well-formed and has the keys that dashboards read: tests/compat/jemalloc/documented.py, by a real
  // parser.
  const std::string text = printed("J");
  EXPECT_TRUE(text.starts_with("{\"jemalloc\": {\"version\": \"5.3.0-0-g0 ")) << text;
  const Stats stats;
  EXPECT_NE(text.find("\"stats\": {\"allocated\": " + std::to_string(stats.allocated)), std::string::npos) << text;
}

}  // namespace
