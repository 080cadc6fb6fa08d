// SPDX-License-Identifier: MIT
//
// profile_tables_test.cc: the tables of a profile: what is counted where, what happens when they are full, and means.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "os/mapping.h"
#include "profile/code_ranges.h"
#include "profile/live_blocks.h"
#include "profile/sites.h"
#include "profile/stack_copies.h"
#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway::profile {
namespace {

using test::Random;
using test::TestEnv;
using Table = Sites<TestEnv>;
using Blocks = LiveBlocks<TestEnv>;

template <class T> struct Room {
  explicit Room(u32 count) : memory(T::bytes(count) / 64 + 2) {
    table.init(align_up(reinterpret_cast<uptr>(memory.data()), 64), count);
  }
  struct alignas(64) Line {
    unsigned char bytes[64] = {};
  };
  std::vector<Line> memory;
  T table{};
};

Stack stack_of(u64 number, unsigned depth = 3) {
  Stack stack;
  stack.depth = depth;
  for (unsigned i = 0; i < depth; ++i) stack.frames[i] = number * 1000 + i + 1;
  return stack;
}

TEST(Sites, OneForEachStackTagSizeAndInterval) {
  Room<Table> room(64);
  const u32 first = room.table.at(stack_of(1), 0, 100, 512);
  EXPECT_EQ(room.table.at(stack_of(1), 0, 100, 512), first);
  EXPECT_EQ(room.table.at(stack_of(1), 0, 101, 512), first) << "sizes that hardly differ";
  std::set<u32> others = {first};
  others.insert(room.table.at(stack_of(2), 0, 100, 512));
  others.insert(room.table.at(stack_of(1, 2), 0, 100, 512));
  others.insert(room.table.at(stack_of(1), 7, 100, 512));
  others.insert(room.table.at(stack_of(1), 0, 200, 512));
  others.insert(room.table.at(stack_of(1), 0, 100, 1024));
  EXPECT_EQ(others.size(), 6u);
}

TEST(Sites, TellWhatTheyAreOf) {
  Room<Table> room(64);
  const u32 i = room.table.at(stack_of(5, kMostFrames), 9, 100, 512);
  Table::View view;
  ASSERT_TRUE(room.table.look(i, view));
  EXPECT_EQ(view.tag, 9u);
  EXPECT_EQ(view.interval, 512u);
  ASSERT_EQ(view.stack.depth, kMostFrames);
  for (unsigned f = 0; f < kMostFrames; ++f) EXPECT_EQ(view.stack.frames[f], stack_of(5, kMostFrames).frames[f]);
}

TEST(Sites, AStackOfNoFramesIsOne) {
  Room<Table> room(64);
  Table::View view;
  ASSERT_TRUE(room.table.look(room.table.at(stack_of(1, 0), 0, 1, 512), view));
  EXPECT_EQ(view.stack.depth, 0u);
}

TEST(Sites, SizesThatDifferByLessThanAnEighthAreOneStep) {
  for (u64 bytes = 1; bytes < 1000000; bytes += 1 + bytes / 50) {
    EXPECT_LE(size_step(bytes), size_step(bytes + 1)) << bytes;
    EXPECT_NE(size_step(bytes), size_step(bytes + bytes / 8 + 1)) << bytes;
  }
  EXPECT_EQ(size_step(1024), size_step(1151));
  EXPECT_NE(size_step(1024), size_step(1152));
}

// Until the table is full each site is found again; from then on strangers are refused, and those that are there still
// count.
TEST(Sites, AFullTableRefusesOnlyStrangers) {
  Room<Table> room(64);
  std::map<u64, u32> known;
  int refused = 0;
  for (u64 number = 0; number < 1000; ++number) {
    const u32 i = room.table.at(stack_of(number), 0, 100, 512);
    if (i == Table::kNone) ++refused;
    else known[number] = i;
  }
  EXPECT_LE(known.size(), 64u);
  EXPECT_GE(known.size(), 32u) << "all that one hash may look at";
  EXPECT_EQ(known.size() + static_cast<std::size_t>(refused), 1000u);
  for (const auto& [number, i] : known) EXPECT_EQ(room.table.at(stack_of(number), 0, 100, 512), i);
}

TEST(Sites, WithoutRoomForFactsThereIsNone) {
  Room<Table> room(64);
  int got = 0;
  for (u64 number = 0; number < 64; ++number)
    got += room.table.at(stack_of(number, kMostFrames), 0, 100, 512) != Table::kNone;
  EXPECT_GT(got, 0);
  EXPECT_LT(got, 64);
  Table::View view;
  int seen = 0;
  for (u32 i = 0; i < room.table.count(); ++i) seen += room.table.look(i, view);
  EXPECT_EQ(seen, got) << "the others are not shown";
}

TEST(Sites, MeansOfAgeAndLifetime) {
  Room<Table> room(64);
  const u32 i = room.table.at(stack_of(1), 0, 100, 512);
  for (const u64 born : {10, 20, 30, 40}) room.table.allocated(i, 100, born);
  room.table.freed(i, 100, 10, 110);
  room.table.freed(i, 100, 40, 60);
  Table::View view;
  ASSERT_TRUE(room.table.look(i, view));
  EXPECT_EQ(view.counts.live(), 2u);
  EXPECT_EQ(view.counts.live_bytes(), 200u);
  EXPECT_EQ(view.counts.age(125), 100u) << "of those of 20 and 30";
  EXPECT_EQ(view.counts.lifetime(), 60u) << "of 100 and 20";
}

// A reader may see a block's bytes before the block: no blocks have no bytes.
TEST(Sites, NoBlocksHaveNoBytes) {
  Counts counts;
  counts.allocated_bytes = 100;
  EXPECT_EQ(counts.live_bytes(), 0u);
}

TEST(LiveBlocks, WhatWasPutIsTakenOnce) {
  Room<Blocks> room(64);
  EXPECT_TRUE(room.table.put({4096, 3, 100, 7, 9}));
  LiveBlock block;
  EXPECT_FALSE(room.table.take(8192, block));
  ASSERT_TRUE(room.table.take(4096, block));
  EXPECT_EQ(block.site, 3u);
  EXPECT_EQ(block.bytes, 100u);
  EXPECT_EQ(block.born, 7u);
  EXPECT_EQ(block.place, 9u);
  EXPECT_FALSE(room.table.take(4096, block));
}

// Against a plain map: blocks come and go, also where the table is full around some of them.
TEST(LiveBlocks, AgreesWithAMap) {
  Random random(test::test_seed());
  Room<Blocks> room(256);
  std::map<uptr, u64> model;
  int refused = 0;
  for (int step = 0; step < 200000; ++step) {
    const uptr address = 16 * (1 + random.next() % 400);
    LiveBlock block;
    if (model.contains(address)) {
      ASSERT_TRUE(room.table.take(address, block)) << address;
      ASSERT_EQ(block.bytes, model[address]);
      model.erase(address);
    } else if (const u64 bytes = random.next() % 1000; room.table.put({address, 1, bytes, 0})) {
      model[address] = bytes;
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0) << "it was full at times";
  std::map<uptr, u64> seen;
  room.table.each([&](const LiveBlock& block) { seen[block.address] = block.bytes; });
  EXPECT_EQ(seen, model);
}

// --- Copies of stacks, and where code lies. --------------------------------------------------------------------------

TEST(StackCopies, KeepWhatThereIsUpToAPiece) {
  std::vector<Room<Table>::Line> memory(StackCopies<TestEnv>::bytes(2, 128) / 64 + 2);
  StackCopies<TestEnv> copies{};
  copies.init(align_up(reinterpret_cast<uptr>(memory.data()), 64), 2, 128);
  Registers registers{};
  for (unsigned i = 0; i < Registers::kCount; ++i) registers.values[i] = 100 + i;
  u64 stack[32];
  for (u64 i = 0; i < 32; ++i) stack[i] = i;
  const auto begin = reinterpret_cast<uptr>(stack);
  EXPECT_EQ(copies.add(registers, begin, begin + 64), 0u);
  EXPECT_EQ(copies.add(registers, begin + 8, begin + sizeof(stack)), 1u);
  EXPECT_EQ(copies.add(registers, begin, begin + 64), StackCopies<TestEnv>::kNone) << "there is room for two";
  EXPECT_EQ(copies.length(0), 64u);
  EXPECT_EQ(copies.length(1), 128u) << "a piece";
  EXPECT_EQ(copies.word(0, 56), 7u);
  EXPECT_EQ(copies.word(1, 0), 1u);
  EXPECT_EQ(copies.register_of(1, 2), 102u);
}

TEST(CodeRanges, AreThoseOfTheMappingsWithCode) {
  const char* const lines[] = {"1000-3000 r--p 00000000",
                               "3000-5000 r-xp 00002000",
                               "5000-6000 r-xp 00000000",
                               "8000-9000 rw-p 00000000",
                               "a000-b000 --xp 00000000",
                               "nonsense",
                               "c000-",
                               ""};
  CodeRanges<TestEnv> code{};
  const auto read = [&](auto&& add) {
    for (const char* line : lines)
      if (const Mapping mapping = parse_mapping(line); mapping.is_code) add(mapping.begin, mapping.end);
  };
  EXPECT_FALSE(code.contains(0x3000)) << "nothing was read yet";
  code.read(read);
  EXPECT_EQ(code.count(), 2u) << "neighbours are one";
  for (const u64 inside : {0x3000, 0x5fff, 0xa000, 0xafff}) EXPECT_TRUE(code.contains(inside)) << inside;
  for (const u64 outside : {0x0, 0x2fff, 0x6000, 0x8000, 0xb000, 0xffffff})
    EXPECT_FALSE(code.contains(outside)) << outside;
}

TEST(Peak, AnEpochBeginsWhereMoreIsLiveThanEver) {
  using namespace peak;
  const u64 first = more(pack(1, 1), 100, step(100));
  EXPECT_EQ(first, pack(2, 1));
  EXPECT_EQ(less(first, 60), pack(2, 61));
  EXPECT_EQ(more(pack(2, 61), 60, 7), pack(2, 1)) << "as much as before is not more";
  EXPECT_EQ(more(pack(2, 61), 61, 7), pack(3, 7));
  EXPECT_EQ(more(pack(kLastEpoch, 1), 100, 7), pack(kLastEpoch, 1)) << "and no further";
  EXPECT_EQ(less(pack(kLastEpoch, 1), 100), pack(kLastEpoch, 1));
}
TEST(Peak, StepsOfAThousandthReachAllMemoryBeforeTheLastEpoch) {
  u64 epochs = 1;
  for (u64 live = 0; live < peak::kMostBytes; live += peak::step(live)) ++epochs;
  EXPECT_LT(epochs, peak::kLastEpoch / 2);
}
TEST(Peak, ASampleWeighsWhatItStandsFor) {
  EXPECT_EQ(peak::weight(1000, 1), 1000u);
  EXPECT_EQ(peak::weight(0, 1), 0u);
  EXPECT_NEAR(static_cast<double>(peak::weight(1000, 524288)), 524288 + 500, 2);
  EXPECT_EQ(peak::weight(u64{1} << 30, 4096), u64{1} << 30);
}

// Beside plain sums: what each site had when the last epoch began.
TEST(Peak, EachSiteHasWhatItHadWhenMostWasLive) {
  constexpr u32 kSites = 8;
  Room<Table> room(64);
  Peak<TestEnv> peak;
  peak.begin(1);
  EXPECT_EQ(peak.epoch(2), 0u) << "of another profile";
  u32 site[kSites];
  for (u32 s = 0; s < kSites; ++s) site[s] = room.table.at(stack_of(s), 0, 1000, 1);
  Random random(test::test_seed());
  std::vector<u64> live(kSites), then(kSites);
  u64 sum = 0, most = 0;
  constexpr int kMoves = 20000;
  for (int move = 0; move < kMoves; ++move) {
    const u32 s = static_cast<u32>(random.below(kSites));
    const u64 bytes = 900 + random.below(100), epoch = peak.epoch(1);
    // Mostly up, mostly down, and up again; the last ones down, so that the peak is not the end.
    const bool down =
        live[s] >= 1000 && (move >= kMoves - 100 || random.below(100) < (move / 4000 % 2 == 0 ? 40u : 60u));
    live[s] += down ? -bytes : bytes;
    sum += down ? -bytes : bytes;
    down ? room.table.freed(site[s], bytes, 0, 1, epoch) : room.table.allocated(site[s], bytes, 1, epoch);
    down ? peak.less(bytes) : peak.more(bytes, static_cast<u64>(move));
    EXPECT_LE(sum, most + most / peak::kStepsOfWhole + 1 + (peak.epoch(1) != epoch ? sum : 0)) << move;
    if (peak.epoch(1) == epoch) continue;
    then = live;
    most = sum;
    EXPECT_EQ(peak.began_ms(), static_cast<u64>(move));
  }
  ASSERT_LT(sum, most);
  Table::View view;
  for (u32 s = 0; s < kSites; ++s) {
    ASSERT_TRUE(room.table.look(site[s], view, peak.epoch(1)));
    EXPECT_EQ(view.at_peak, then[s]) << s;
    EXPECT_EQ(view.counts.live_bytes(), live[s]) << s;
  }
}

}  // namespace
}  // namespace freeway::profile
