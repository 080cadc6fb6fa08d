// SPDX-License-Identifier: MIT
//
// Tests of pages/chunk_word.h against a search that looks at one frame after the other: every word of 16 bits at each
// end of the chunk, and random words of 64.
#include "pages/chunk_word.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace freeway {
namespace {

using test::Random;

bool is_free(u64 used, unsigned first, unsigned frames) {
  for (unsigned i = 0; i < frames; ++i)
    if (first + i >= 64 || (used >> (first + i) & 1) != 0) return false;
  return true;
}

unsigned naive_find_run(u64 used, unsigned frames, unsigned alignment) {
  for (unsigned first = 0; first + frames <= 64; first += alignment)
    if (is_free(used, first, frames)) return first;
  return 64;
}

u64 naive_lowest_run(u64 bits) {
  u64 run = 0;
  unsigned i = 0;
  while ((bits >> i & 1) == 0) ++i;
  for (; i < 64 && (bits >> i & 1) != 0; ++i) run |= u64{1} << i;
  return run;
}

// Words with long runs, short runs and no runs.
u64 random_word(Random& random) {
  switch (random.below(4)) {
    case 0: return random.next();
    case 1: return random.next() & random.next() & random.next();
    case 2: return random.next() | random.next() | random.next();
    default: {
      const auto first = static_cast<unsigned>(random.below(64));
      const auto frames = static_cast<unsigned>(1 + random.below(64 - first));
      return ~(low_bits(frames) << first) ^ (random.chance(50) ? u64{1} << random.below(64) : 0);
    }
  }
}

TEST(ChunkWord, RunMaskIsTheFramesOfTheRun) {
  for (unsigned first = 0; first < 64; ++first)
    for (unsigned frames = 1; first + frames <= 64; ++frames)
      for (unsigned i = 0; i < 64; ++i)
        ASSERT_EQ(chunk_word::run_mask(first, frames) >> i & 1, i >= first && i < first + frames)
            << first << "+" << frames;
}

TEST(ChunkWord, AlignedStartsAreTheMultiples) {
  for (unsigned alignment = 1; alignment <= 64; alignment *= 2)
    for (unsigned i = 0; i < 64; ++i) ASSERT_EQ(chunk_word::aligned_starts(alignment) >> i & 1, i % alignment == 0);
}

TEST(ChunkWord, RunStartsAreThePlacesOfFreeRunsForEveryWordOf16Bits) {
  for (unsigned shift : {0u, 24u, 48u})
    for (u64 free = 0; free < 1 << 16; ++free) {
      const u64 used = ~(free << shift);
      for (unsigned frames = 1; frames <= 17; ++frames) {
        const u64 starts = chunk_word::run_starts(used, frames);
        u64 expected = 0;
        for (unsigned first = shift; first < shift + 16; ++first)
          if (is_free(used, first, frames)) expected |= u64{1} << first;
        ASSERT_EQ(starts, expected) << std::hex << used << " run of " << frames;
      }
    }
}

TEST(ChunkWord, FindRunIsTheLowestFreeAlignedRunForEveryWordOf16Bits) {
  for (unsigned shift : {0u, 48u})
    for (u64 free = 0; free < 1 << 16; ++free) {
      const u64 used = ~(free << shift);
      for (unsigned frames = 1; frames <= 17; ++frames)
        for (unsigned alignment = 1; alignment <= 16; alignment *= 2)
          ASSERT_EQ(chunk_word::find_run(used, frames, alignment), naive_find_run(used, frames, alignment))
              << std::hex << used << " run of " << frames << " aligned to " << alignment;
    }
}

TEST(ChunkWord, FindRunIsTheLowestFreeAlignedRunOfEveryLength) {
  Random random(test::test_seed());
  for (int i = 0; i < 3000; ++i) {
    const u64 used = i == 0 ? 0 : i == 1 ? ~u64{0} : random_word(random);
    for (unsigned frames = 1; frames <= 64; ++frames)
      for (unsigned alignment = 1; alignment <= 64; alignment *= 2)
        ASSERT_EQ(chunk_word::find_run(used, frames, alignment), naive_find_run(used, frames, alignment))
            << std::hex << used << " run of " << frames << " aligned to " << alignment;
  }
}

TEST(ChunkWord, AFullChunkHasNoRunAndAnEmptyOneHasAllOfThem) {
  for (unsigned frames = 1; frames <= 64; ++frames) {
    EXPECT_EQ(chunk_word::find_run(~u64{0}, frames, 1), kChunkFrames);
    EXPECT_EQ(chunk_word::find_run(0, frames, 64), 0u);
  }
}

TEST(ChunkWord, LowestRunIsTheFirstRunOfOnes) {
  for (unsigned shift : {0u, 22u, 44u})
    for (u64 bits = 1; bits < 1 << 20; ++bits)
      ASSERT_EQ(chunk_word::lowest_run(bits << shift), naive_lowest_run(bits << shift)) << std::hex << (bits << shift);
  Random random(test::test_seed());
  for (int i = 0; i < 100000; ++i)
    if (const u64 bits = random_word(random)) {
      ASSERT_EQ(chunk_word::lowest_run(bits), naive_lowest_run(bits)) << std::hex << bits;
    }
  EXPECT_EQ(chunk_word::lowest_run(~u64{0}), ~u64{0});
  EXPECT_EQ(chunk_word::lowest_run(u64{1} << 63), u64{1} << 63);
}

}  // namespace
}  // namespace freeway
