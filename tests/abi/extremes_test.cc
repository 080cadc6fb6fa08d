// SPDX-License-Identifier: MIT
//
// extremes_test.cc: every function that takes a size with every extreme size, every function that takes an alignment
// with every power of two that a size_t holds and with numbers that are none, and freeway.h's functions with arguments
// that make no sense. Each answer is what the headers say; what was alive before is unchanged after.
#include <freeway/freeway.h>
#include <gtest/gtest.h>

#include <new>

#include "abi_test.h"
#include "tests/support/proof.h"

namespace freeway::test {
namespace {

// --- Sizes. ----------------------------------------------------------------------------------------------------------

struct Sized {
  const char* name;
  void* (*allocate)(size_t size);
};

constexpr Sized kSized[] = {
    {"malloc", [](size_t size) { return malloc(size); }},
    {"calloc(1, n)", [](size_t size) { return calloc(1, size); }},
    {"calloc(n, 1)", [](size_t size) { return calloc(size, 1); }},
    {"realloc(NULL)", [](size_t size) { return realloc(nullptr, size); }},
    {"reallocarray(NULL, 1, n)", [](size_t size) { return reallocarray(nullptr, 1, size); }},
    {"reallocarray(NULL, n, 1)", [](size_t size) { return reallocarray(nullptr, size, 1); }},
    {"aligned_alloc(16)", [](size_t size) { return aligned_alloc(16, size); }},
    {"aligned_alloc(4096)", [](size_t size) { return aligned_alloc(4096, size); }},
    {"memalign(64)", [](size_t size) { return memalign(64, size); }},
    {"posix_memalign(64)",
     [](size_t size) {
       void* block = nullptr;
       const int error = posix_memalign(&block, 64, size);
       if (error != 0) errno = error;
       return block;
     }},
    {"valloc", [](size_t size) { return valloc(size); }},
    {"pvalloc", [](size_t size) { return pvalloc(size); }},
    {"malloc_batch",
     [](size_t size) {
       void* block = nullptr;
       return freeway_malloc_batch(size, 1, &block) == 1 ? block : nullptr;
     }},
    {"new (nothrow)", [](size_t size) { return ::operator new(size, std::nothrow); }},
    {"new[] (nothrow)", [](size_t size) { return ::operator new[](size, std::nothrow); }},
    {"new (aligned, nothrow)", [](size_t size) { return ::operator new(size, std::align_val_t{64}, std::nothrow); }},
};

TEST(EverySizedFunction, MeetsZeroAndOne) {
  uint64_t calls = 0;
  for (const Sized& each : kSized) {
    for (const size_t size : {size_t{0}, size_t{1}}) {
      void* first = hide(each.allocate(hide(size)));
      void* second = hide(each.allocate(hide(size)));
      ASSERT_NE(first, nullptr) << each.name << " " << size;
      ASSERT_NE(second, nullptr) << each.name << " " << size;
      EXPECT_NE(first, second) << each.name << " " << size;
      EXPECT_TRUE(is_aligned(first, 16)) << each.name;
      EXPECT_GE(malloc_usable_size(first), size) << each.name;
      memset(first, 1, malloc_usable_size(first));
      free(first);
      free(second);
      calls += 2;
    }
  }
  proof("bad input", "extreme sizes", "calls", calls);
}

TEST(EverySizedFunction, RefusesWhatNoMemoryCanMeet) {
  uint64_t calls = 0;
  for (const Sized& each : kSized) {
    for (const size_t size : kImpossibleSizes) {
      errno = 0;
      EXPECT_EQ(hide(each.allocate(hide(size))), nullptr) << each.name << " " << size;
      EXPECT_EQ(errno, ENOMEM) << each.name << " " << size;
      ++calls;
    }
  }
  proof("bad input", "extreme sizes", "calls", calls);
}

TEST(EverySizedFunction, ThrowingNewThrows) {
  uint64_t calls = 0;
  for (const size_t size : kImpossibleSizes) {
    EXPECT_THROW(hide(::operator new(hide(size))), std::bad_alloc) << size;
    EXPECT_THROW(hide(::operator new[](hide(size))), std::bad_alloc) << size;
    EXPECT_THROW(hide(::operator new(hide(size), std::align_val_t{256})), std::bad_alloc) << size;
    calls += 3;
  }
  proof("bad input", "extreme sizes", "calls", calls);
}

TEST(Realloc, OfALiveBlockToWhatNoMemoryCanMeetLeavesIt) {
  uint64_t calls = 0;
  for (const size_t from : {size_t{1}, size_t{100}, kLargestSmall, kLargestSmall + 1, 5 * kMiB}) {
    void* block = hide(malloc(from));
    ASSERT_NE(block, nullptr);
    fill(block, from, 4);
    for (const size_t size : kImpossibleSizes) {
      errno = 0;
      EXPECT_EQ(hide(realloc(hide(block), hide(size))), nullptr) << from << " -> " << size;
      EXPECT_EQ(errno, ENOMEM);
      errno = 0;
      EXPECT_EQ(hide(reallocarray(hide(block), hide(size), 3)), nullptr) << from << " -> " << size;
      EXPECT_EQ(errno, ENOMEM);
      calls += 2;
    }
    EXPECT_TRUE(holds(block, from, 4));
    free(block);
  }
  proof("bad input", "extreme sizes", "calls", calls);
}

TEST(Calloc, OfEveryPairOfExtremesIsRefusedOrEmpty) {
  constexpr size_t kFactors[] = {0,
                                 1,
                                 2,
                                 3,
                                 16,
                                 size_t{1} << 31,
                                 size_t{1} << 32,
                                 (size_t{1} << 32) + 1,
                                 size_t{PTRDIFF_MAX} - 1,
                                 size_t{PTRDIFF_MAX},
                                 size_t{PTRDIFF_MAX} + 1,
                                 SIZE_MAX - 1,
                                 SIZE_MAX};
  uint64_t calls = 0;
  for (const size_t count : kFactors) {
    for (const size_t size : kFactors) {
      const unsigned __int128 product = static_cast<unsigned __int128>(count) * size;
      if (product > 64 && product < size_t{PTRDIFF_MAX} - 1) continue;  // possible, or nearly
      errno = 0;
      void* zeroed = hide(calloc(hide(count), hide(size)));
      void* array = hide(reallocarray(nullptr, hide(count), hide(size)));
      EXPECT_EQ(zeroed != nullptr, product <= 64) << count << " * " << size;
      EXPECT_EQ(array != nullptr, product <= 64) << count << " * " << size;
      EXPECT_EQ(errno, product <= 64 ? 0 : ENOMEM) << count << " * " << size;
      free(zeroed);
      free(array);
      calls += 2;
    }
  }
  proof("bad input", "extreme sizes", "calls", calls);
}

TEST(SizedFrees, OfNullDoNotLookAtTheSize) {
  free_sized(nullptr, SIZE_MAX);
  free_aligned_sized(nullptr, SIZE_MAX, SIZE_MAX);
  proof("bad input", "extreme sizes", "calls", 2);
}

TEST(Trim, OfAnyPadIsNoTrouble) {
  uint64_t calls = 0;
  for (const size_t size : kImpossibleSizes) {
    malloc_trim(hide(size));
    freeway_trim(hide(size));
    calls += 2;
  }
  proof("bad input", "extreme sizes", "calls", calls);
}

// --- Alignments. -----------------------------------------------------------------------------------------------------

// The kernel may refuse an aligned mapping long before this; beyond it, none can be.
constexpr unsigned kHighestPossible = 46;

struct Aligned {
  const char* name;
  void* (*allocate)(size_t alignment, size_t size);
  size_t lowest;  // smaller ones are invalid
  bool rounds;    // other numbers count as the next power of two
};

constexpr Aligned kAligned[] = {
    {"aligned_alloc", [](size_t alignment, size_t size) { return aligned_alloc(alignment, size); }, 1, false},
    {"memalign", [](size_t alignment, size_t size) { return memalign(alignment, size); }, 0, true},
    {"posix_memalign",
     [](size_t alignment, size_t size) {
       void* block = nullptr;
       const int error = posix_memalign(&block, alignment, size);
       if (error != 0) errno = error;
       return block;
     },
     sizeof(void*), false},
    {"new (aligned, nothrow)",
     [](size_t alignment, size_t size) { return ::operator new(size, std::align_val_t{alignment}, std::nothrow); }, 1,
     false},
};

class EveryAligned : public testing::TestWithParam<Aligned> {};
INSTANTIATE_TEST_SUITE_P(, EveryAligned, testing::ValuesIn(kAligned), [](const auto& test) {
  std::string name = test.param.name;
  std::erase_if(name, [](char c) { return isalpha(c) == 0 && c != '_'; });
  return name;
});

TEST_P(EveryAligned, EveryPowerOfTwoIsMetOrRefusedWithEnomem) {
  const Aligned& function = GetParam();
  uint64_t calls = 0, met = 0;
  for (unsigned shift = 0; shift < 64; ++shift) {
    const size_t alignment = size_t{1} << shift;
    for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, kLargestSmall, kLargestSmall + 1, 3 * kMiB}) {
      if (alignment < function.lowest) continue;
      errno = 0;
      void* block = hide(function.allocate(hide(alignment), hide(size)));
      ++calls;
      if (block == nullptr) {
        EXPECT_GT(shift, 40u) << size << ": refused";
        EXPECT_EQ(errno, ENOMEM) << shift;
        continue;
      }
      EXPECT_LE(shift, kHighestPossible);
      ++met;
      EXPECT_TRUE(is_aligned(block, alignment)) << shift;
      EXPECT_GE(malloc_usable_size(block), size);
      const size_t written = size < 64 * kKiB ? size : 64 * kKiB;
      fill(block, written, shift);
      // It can be resized and given back like any other.
      block = hide(realloc(block, size + 100));
      ASSERT_NE(block, nullptr);
      EXPECT_TRUE(holds(block, written, shift));
      free(block);
    }
  }
  EXPECT_GT(met, 30u * 6);
  proof("bad input", "alignments", "calls", calls);
}

TEST_P(EveryAligned, EveryPowerOfTwoWithAnImpossibleSizeIsRefused) {
  const Aligned& function = GetParam();
  uint64_t calls = 0;
  for (unsigned shift = 3; shift < 64; ++shift) {
    for (const size_t size : kImpossibleSizes) {
      errno = 0;
      EXPECT_EQ(hide(function.allocate(size_t{1} << shift, hide(size))), nullptr) << shift << " " << size;
      EXPECT_EQ(errno, ENOMEM) << shift << " " << size;
      ++calls;
    }
  }
  proof("bad input", "alignments", "calls", calls);
}

TEST_P(EveryAligned, WhatIsNoPowerOfTwoIsInvalidOrRounded) {
  const Aligned& function = GetParam();
  uint64_t calls = 0;
  const auto attempt = [&](size_t alignment) {
    errno = 0;
    void* block = hide(function.allocate(hide(alignment), 40));
    ++calls;
    if (!function.rounds) {
      EXPECT_EQ(block, nullptr) << alignment;
      // The nothrow forms have no errno of their own.
      EXPECT_EQ(errno, EINVAL) << alignment;
      return;
    }
    size_t rounded = 1;
    while (rounded != 0 && rounded < alignment) rounded *= 2;
    if (block == nullptr) {
      EXPECT_TRUE(rounded == 0 || rounded > size_t{1} << 40) << alignment;
      // Beyond 2^63 memalign cannot round, and says so.
      EXPECT_EQ(errno, alignment > size_t{1} << 63 ? EINVAL : ENOMEM) << alignment;
    } else {
      EXPECT_TRUE(is_aligned(block, rounded)) << alignment;
      memset(block, 1, 40);
      free(block);
    }
  };
  attempt(0);
  for (size_t alignment = 3; alignment < 300; ++alignment)
    if ((alignment & (alignment - 1)) != 0) attempt(alignment);
  for (unsigned shift = 9; shift < 64; ++shift) {
    const size_t power = size_t{1} << shift;
    for (const size_t alignment : {power - 1, power + 1, power + 8, power + power / 2}) attempt(alignment);
  }
  for (const size_t alignment : kImpossibleSizes)
    if ((alignment & (alignment - 1)) != 0) attempt(alignment);
  proof("bad input", "alignments", "calls", calls);
}

// --- Arguments that make no sense. -----------------------------------------------------------------------------------

TEST(BadArguments, ANullResultOfPosixMemalignIsInvalid) {
  errno = 4242;
  EXPECT_EQ(freeway_posix_memalign(hide(static_cast<void**>(nullptr)), 64, 100), EINVAL);
  EXPECT_EQ(errno, 4242);
}

TEST(BadArguments, BatchesThatNoArrayHoldsAreInvalid) {
  void* blocks[2] = {this, this};
  const size_t most = PTRDIFF_MAX / sizeof(void*);
  for (const size_t count : {most + 1, size_t{PTRDIFF_MAX}, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(freeway_malloc_batch(16, hide(count), blocks), 0u);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(blocks[0], this) << "something was written";
  }
  errno = 0;
  EXPECT_EQ(freeway_malloc_batch(16, 2, hide(static_cast<void**>(nullptr))), 0u);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(freeway_malloc_batch(SIZE_MAX, 0, nullptr), 0u);
  EXPECT_EQ(errno, 0);
}

TEST(BadArguments, StructuresMayBeAbsentShorterOrLonger) {
  freeway_stats(nullptr, sizeof(freeway_stats_t));
  freeway_stats(nullptr, 0);
  freeway_stats(nullptr, SIZE_MAX);
  EXPECT_EQ(freeway_audit(nullptr, 0), 0u);
  EXPECT_EQ(freeway_audit(nullptr, SIZE_MAX), 0u);
  struct {
    freeway_stats_t stats;
    freeway_audit_t audit;
    unsigned char behind[64];
  } space;
  memset(&space, 0xcd, sizeof space);
  freeway_stats(&space.stats, SIZE_MAX);
  EXPECT_EQ(*reinterpret_cast<unsigned char*>(&space.audit), 0xcd) << "written beyond what the library knows";
  EXPECT_EQ(freeway_audit(&space.audit, SIZE_MAX), 0u);
  EXPECT_EQ(space.behind[0], 0xcd);
  EXPECT_EQ(space.audit.errors, 0u);
  EXPECT_GT(space.stats.metadata, 0u);
}

TEST(BadArguments, MallocInfoToNowhereIsInvalid) {
  EXPECT_EQ(freeway_malloc_info(0, hide(static_cast<FILE*>(nullptr))), EINVAL);
  EXPECT_EQ(freeway_malloc_info(-1, stdout), EINVAL);
}

TEST(BadArguments, MalloptKnowsGlibcsRanges) {
  for (const int parameter : {INT32_MIN, -100, -8, -1, 0, 1, 2, 100, INT32_MAX}) {
    for (const int value : {INT32_MIN, -1, 0, 1, 64, 160, 161, 1 << 25, (1 << 25) + 1, INT32_MAX}) {
      const bool fast = parameter == M_MXFAST, threshold = parameter == M_MMAP_THRESHOLD;
      const bool good = fast ? value >= 0 && value <= 160 : !threshold || (value >= 0 && value <= 1 << 25);
      EXPECT_EQ(mallopt(parameter, value), good ? 1 : 0) << parameter << " " << value;
    }
  }
  proof("bad input", "other arguments", "calls", 90 + 13);
}

TEST(BadArguments, LeaveASoundHeap) {
  freeway_audit_t audit{};
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
  EXPECT_EQ(audit.frames_stranded, 0u);
}

}  // namespace
}  // namespace freeway::test
