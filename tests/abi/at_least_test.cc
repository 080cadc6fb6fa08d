// SPDX-License-Identifier: MIT
//
// at_least_test.cc: sizes told back. From the size asked for up to the size told, all bytes are the block's, and each
// size is one that sized frees accept, in every mode. freeway/allocator.h, and what a growing array gains.
#include <freeway/allocator.h>
#include <freeway/freeway.h>
#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "abi_test.h"
#include "scenario.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"

extern "C" {
size_t nallocx(size_t size, int flags) noexcept;
struct SizedPointer {
  void* p;
  size_t n;
};
SizedPointer sized_new(size_t size) __asm__("__size_returning_new");
SizedPointer sized_aligned_new(size_t size, std::align_val_t alignment) __asm__("__size_returning_new_aligned");
int freeway_test_at_least_in_c(size_t size);  // at_least_in_c.c
int freeway_test_allocator_cxx17();           // allocator_alone.cc
int freeway_test_allocator_cxx20();
int freeway_test_allocator_cxx23();
}

namespace freeway::test {
namespace {

constexpr size_t kAlignment = 256;
constexpr std::align_val_t kAligned{kAlignment};

struct Way {
  const char* name;
  size_t alignment;
  freeway_sized_block_t (*give)(size_t size);
  void (*take)(void* block, size_t size);
};

freeway_sized_block_t told(SizedPointer given) { return {hide(given.p), given.n}; }
freeway_sized_block_t told(freeway_sized_block_t given) { return {hide(given.ptr), given.size}; }

const Way kWays[] = {
    {"alloc_at_least", 16, [](size_t n) { return told(freeway_alloc_at_least(n)); },
     [](void* p, size_t n) { free_sized(p, n); }},
    {"aligned_alloc_at_least", kAlignment, [](size_t n) { return told(freeway_aligned_alloc_at_least(kAlignment, n)); },
     [](void* p, size_t n) { free_aligned_sized(p, kAlignment, n); }},
    {"__size_returning_new", 16, [](size_t n) { return told(sized_new(n)); },
     [](void* p, size_t n) { ::operator delete(p, n); }},
    {"__size_returning_new_aligned", kAlignment, [](size_t n) { return told(sized_aligned_new(n, kAligned)); },
     [](void* p, size_t n) { ::operator delete(p, n, kAligned); }},
};

// Three blocks of each size beside each other, written from end to end; freed as the size that was asked for, the one
// that was told, and one between them.
void try_size(const Way& way, size_t size, Random& random) {
  freeway_sized_block_t blocks[3];
  for (unsigned i = 0; i < 3; ++i) {
    blocks[i] = way.give(size);
    require(blocks[i].ptr != nullptr && blocks[i].size >= size, "no block, or a shorter one");
    require(is_aligned(blocks[i].ptr, way.alignment), "alignment");
    require(blocks[i].size <= malloc_usable_size(blocks[i].ptr), "more was told than there is");
    memset(blocks[i].ptr, int(i) + 1, blocks[i].size);
  }
  for (unsigned i = 0; i < 3; ++i) {
    const auto* bytes = static_cast<unsigned char*>(blocks[i].ptr);
    const size_t last = blocks[i].size == 0 ? 0 : blocks[i].size - 1;
    if (blocks[i].size != 0) require(bytes[0] == i + 1 && bytes[last] == i + 1, "a neighbour wrote into it");
  }
  way.take(blocks[0].ptr, size);
  way.take(blocks[1].ptr, blocks[1].size);
  way.take(blocks[2].ptr, size + random.next() % (blocks[2].size - size + 1));
}

// The first blocks of each class are another's (cache/loans.h): in a new process. `argument`: the step from 5,000 on.
FREEWAY_SCENARIO(EverySizeIsTold) {
  Random random(1);
  for (const Way& way : kWays) {
    for (size_t size = 0; size <= 40000; size += size < 5000 ? 1 : static_cast<size_t>(argument))
      try_size(way, size, random);
    for (const size_t size : kInterestingSizes) try_size(way, size, random);
    // Too large to be written.
    const freeway_sized_block_t huge = way.give(kLargestLarge + 1);
    require(huge.ptr != nullptr && huge.size > kLargestLarge, "no huge block");
    static_cast<char*>(huge.ptr)[huge.size - 1] = 1;
    way.take(huge.ptr, huge.size);
  }
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0, "the audit found errors");
}

TEST(AtLeast, EverySizeUpToTheToldOneNamesTheBlock) {
  for (const char* mode : kSizedModes) {
    const Outcome outcome =
        run_scenario("EverySizeIsTold", mode == kSizedModes[0] ? 1 : 37, {mode, "FREEWAY_ON_ERROR=report"});
    ASSERT_TRUE(outcome.succeeded()) << mode << ": exit " << outcome.exit_status << ", signal " << outcome.signal
                                     << "\n"
                                     << outcome.err;
    EXPECT_EQ(outcome.reports().size(), 0u) << mode << "\n" << outcome.err;
  }
  proof("sizes", "told back", "modes", std::size(kSizedModes));
}

// Sizes are told so that they are used: a block of 100 bytes that tells 100 would pass all that is above.
TEST(AtLeast, AllOfTheClassIsTold) {
  const size_t expected[][2] = {{0, 16},      {1, 16},      {17, 32},       {100, 112},     {129, 160},
                                {1000, 1024}, {1025, 1152}, {20000, 20480}, {32768, 32768}, {32769, 65536}};
  for (const auto& [size, bytes] : expected) {
    const freeway_sized_block_t block = told(freeway_alloc_at_least(size));
    EXPECT_EQ(block.size, bytes) << size;
    free_sized(block.ptr, size);
  }
  const freeway_sized_block_t block = told(freeway_aligned_alloc_at_least(64, 100));
  EXPECT_EQ(block.size, 128u);
  free_aligned_sized(block.ptr, 64, 100);
}

TEST(AtLeast, NallocxIsWhatIsTold) {
  for (size_t size = 0; size <= 200000; size += size < 40000 ? 1 : 997) {
    for (const int lg : {0, 4, 6, 12, 16}) {
      if (size % 64 > 2 && lg != 0) continue;
      const size_t alignment = size_t{1} << lg;
      const freeway_sized_block_t block = told(freeway_aligned_alloc_at_least(alignment, size));
      ASSERT_EQ(nallocx(size, lg), size == 0 && lg > 4 ? nallocx(1, lg) : block.size) << size << " at 2^" << lg;
      free_aligned_sized(block.ptr, alignment, size);
    }
  }
  EXPECT_EQ(freeway_nallocx(100, 0), nallocx(100, 0));
  EXPECT_EQ(nallocx(100, 0x40 | 8), 256u) << "other flags";
  for (const size_t size : {size_t{PTRDIFF_MAX}, SIZE_MAX - 100, SIZE_MAX}) EXPECT_EQ(nallocx(size, 0), 0u) << size;
  EXPECT_EQ(nallocx(1, 63), 0u);
}

// A program that asks first expects that very block, also where the class would borrow its first ones.
FREEWAY_SCENARIO(NallocxFirst) {
  require(nallocx(1000, 0) == 1024, "nallocx");
  for (size_t size = 0; size <= kLargestSmall; size += 7) {
    void* block = hide(malloc(size));
    require(malloc_usable_size(block) == nallocx(size, 0), "malloc gave another block");
    free(block);
  }
}

TEST(AtLeast, NallocxIsWhatMallocGivesFromThenOn) { EXPECT_TRUE(run_scenario("NallocxFirst").succeeded()); }

TEST(AtLeast, WhatCannotBeIsRefused) {
  for (const size_t size : kImpossibleSizes) {
    errno = 0;
    const freeway_sized_block_t block = told(freeway_alloc_at_least(hide(size)));
    EXPECT_TRUE(block.ptr == nullptr && block.size == 0 && errno == ENOMEM) << size;
    errno = 0;
    const freeway_sized_block_t aligned = told(freeway_aligned_alloc_at_least(kAlignment, hide(size)));
    EXPECT_TRUE(aligned.ptr == nullptr && aligned.size == 0 && errno == ENOMEM) << size;
    EXPECT_THROW(told(sized_new(hide(size))), std::bad_alloc);
    EXPECT_THROW(told(sized_aligned_new(hide(size), kAligned)), std::bad_alloc);
  }
  for (const size_t alignment : {0, 3, 48}) {
    errno = 0;
    const freeway_sized_block_t block = told(freeway_aligned_alloc_at_least(hide(alignment), 100));
    EXPECT_TRUE(block.ptr == nullptr && block.size == 0 && errno == EINVAL) << alignment;
  }
}

TEST(AtLeast, TheNewHandlerIsCalled) {
  static int calls;
  calls = 0;
  std::set_new_handler([] {
    if (++calls == 3) std::set_new_handler(nullptr);
  });
  EXPECT_THROW(told(sized_new(hide(size_t{PTRDIFF_MAX}))), std::bad_alloc);
  EXPECT_EQ(calls, 3);
}

TEST(AtLeast, FromC) {
  for (const size_t size : kInterestingSizes) EXPECT_TRUE(freeway_test_at_least_in_c(size)) << size;
}

// --- freeway/allocator.h ---------------------------------------------------------------------------------------------

TEST(Allocator, ContainersOfEveryKind) {
  std::vector<int, allocator<int>> numbers;
  std::list<std::string, allocator<std::string>> names;
  std::deque<char, allocator<char>> letters;
  std::map<int, int, std::less<>, allocator<std::pair<const int, int>>> squares;
  for (int i = 0; i < 5000; ++i) {
    numbers.push_back(i);
    names.push_back(std::to_string(i));
    letters.push_back(static_cast<char>(i));
    squares[i] = i * i;
  }
  EXPECT_EQ(numbers[4999], 4999);
  EXPECT_EQ(names.back(), "4999");
  EXPECT_EQ(squares[70], 4900);
  const auto moved = std::move(numbers);
  EXPECT_EQ(moved.size(), 5000u);
  EXPECT_TRUE(allocator<int>() == allocator<long>() && !(allocator<int>() != allocator<int>()));
}

struct alignas(128) Wide {
  char bytes[384];
};

TEST(Allocator, TellsRoomAndKeepsAlignment) {
  const auto try_type = [](auto alloc) {
    using T = typename decltype(alloc)::value_type;
    for (size_t count = 1; count < 200; ++count) {
      const auto room = alloc.allocate_at_least(count);
      ASSERT_GE(room.count, count);
      ASSERT_TRUE(is_aligned(room.ptr, alignof(T)));
      memset(static_cast<void*>(hide(room.ptr)), 1, room.count * sizeof(T));
      alloc.deallocate(room.ptr, count % 2 != 0 ? room.count : count);
      alloc.deallocate(alloc.allocate(count), count);
    }
  };
  try_type(allocator<char>());
  try_type(allocator<Wide>());
  EXPECT_GT(allocator<char>().allocate_at_least(33000).count, 65000u);  // and is lost
}

TEST(Allocator, RefusesAsTheStandardSays) {
  EXPECT_THROW((void)allocator<int>().allocate(hide(SIZE_MAX / 2)), std::bad_array_new_length);
  EXPECT_THROW((void)allocator<int>().allocate_at_least(hide(SIZE_MAX / 4 + 1)), std::bad_array_new_length);
  EXPECT_THROW((void)allocator<char>().allocate(hide(size_t{PTRDIFF_MAX})), std::bad_alloc);
  EXPECT_THROW((void)allocator<Wide>().allocate_at_least(hide(size_t{PTRDIFF_MAX} / 384)), std::bad_alloc);
}

TEST(Allocator, HeaderStandsAlone) {
  EXPECT_EQ(freeway_test_allocator_cxx17(), 1);
  EXPECT_EQ(freeway_test_allocator_cxx20(), 1);
  EXPECT_EQ(freeway_test_allocator_cxx23(), 1);
}

// --- A growing array. ------------------------------------------------------------------------------------------------

struct Growth {
  size_t copied = 0, peak = 0;  // bytes
};

// An array of `size` bytes each to which `count` are added: when it is full, it moves to a block of `percent` of its
// room. What is live in the peak is both blocks, by their real sizes.
Growth grow(size_t size, size_t count, size_t percent, bool is_told) {
  Growth growth;
  freeway_sized_block_t now = {nullptr, 0};
  size_t room = 0;
  for (size_t used = 0; used < count; ++used) {
    if (used != room) continue;
    const size_t wanted = std::max(room + 1, room * percent / 100) * size;
    const freeway_sized_block_t next = freeway_alloc_at_least(wanted);
    growth.copied += used * size;
    growth.peak = std::max(growth.peak, now.size + next.size);
    if (now.ptr != nullptr) free_sized(now.ptr, now.size);
    now = next;
    room = (is_told ? next.size : wanted) / size;
  }
  free_sized(now.ptr, now.size);
  return growth;
}

TEST(AtLeast, GrowingArraysAreCopiedLess) {
  for (const size_t percent : {150, 200}) {
    Growth sums[2];
    for (const size_t size : {8, 24, 40})
      for (size_t count = 1; count < 20000; count += count / 20 + 1)
        for (const bool is_told : {false, true}) {
          const Growth growth = grow(size, count, percent, is_told);
          sums[is_told].copied += growth.copied;
          sums[is_told].peak += growth.peak;
        }
    printf("grown to %zu %%: told %.1f %% fewer bytes copied, sum of peaks %+.1f %%\n", percent,
           100.0 - 100.0 * double(sums[1].copied) / double(sums[0].copied),
           100.0 * double(sums[1].peak) / double(sums[0].peak) - 100.0);
    EXPECT_LT(sums[1].copied, sums[0].copied) << percent;
  }
}

}  // namespace
}  // namespace freeway::test
