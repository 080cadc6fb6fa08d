// SPDX-License-Identifier: MIT
//
// aligned_test.cc: aligned_alloc (ISO C), posix_memalign (POSIX), memalign, valloc and pvalloc (glibc): every power of
// two up to 1 GiB, what each does with other alignments, and how each says no.
#include <gtest/gtest.h>

#include <vector>

#include "abi_test.h"

namespace freeway::test {
namespace {

using AlignedFunction = void* (*)(size_t alignment, size_t size);

void* by_posix_memalign(size_t alignment, size_t size) {
  void* block = nullptr;
  return posix_memalign(&block, alignment, size) == 0 ? block : nullptr;
}

struct Named {
  const char* name;
  AlignedFunction allocate;
};
constexpr Named kAlignedFunctions[] = {
    {"aligned_alloc", aligned_alloc}, {"memalign", memalign}, {"posix_memalign", by_posix_memalign}};

class Aligned : public testing::TestWithParam<Named> {};
INSTANTIATE_TEST_SUITE_P(, Aligned, testing::ValuesIn(kAlignedFunctions),
                         [](const auto& test) { return test.param.name; });

TEST_P(Aligned, EveryPowerOfTwoUpToAGibibyte) {
  const size_t smallest = GetParam().allocate == by_posix_memalign ? sizeof(void*) : 1;
  for (size_t alignment = smallest; alignment <= size_t{1} << 30; alignment *= 2) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{24}, size_t{100}, alignment - 1, alignment, alignment + 1,
                              size_t{5000}, size_t{70000}}) {
      if (size > 64 * kMiB && size != alignment) continue;
      void* block = hide(GetParam().allocate(hide(alignment), hide(size)));
      ASSERT_NE(block, nullptr) << alignment << " " << size;
      ASSERT_TRUE(is_aligned(block, alignment)) << alignment << " " << size;
      ASSERT_TRUE(is_aligned(block, size >= 16 ? 16 : 1));
      ASSERT_GE(malloc_usable_size(block), size);
      if (size <= kMiB) {
        const size_t usable = malloc_usable_size(block);
        const size_t written = usable < 2 * kMiB ? usable : 2 * kMiB;
        fill(block, written, 3);
        EXPECT_TRUE(holds(block, written, 3));
      }
      free(block);
    }
  }
}

TEST_P(Aligned, ManyAtOnceLieApart) {
  for (const size_t alignment : {size_t{16}, size_t{64}, size_t{512}, size_t{4096}, size_t{65536}}) {
    for (const size_t size : {size_t{24}, size_t{200}, size_t{3000}, size_t{20000}}) {
      std::vector<void*> blocks;
      const size_t stride = size < alignment ? alignment : size;
      const size_t count = 8 * kMiB / stride < 500 ? 8 * kMiB / stride : 500;
      for (size_t i = 0; i < count; ++i) {
        blocks.push_back(hide(GetParam().allocate(alignment, size)));
        ASSERT_NE(blocks.back(), nullptr);
        ASSERT_TRUE(is_aligned(blocks.back(), alignment));
        fill(blocks.back(), size, unsigned(i));
      }
      for (size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(holds(blocks[i], size, unsigned(i))) << alignment << " " << size;
        free(blocks[i]);
      }
    }
  }
}

TEST_P(Aligned, ImpossibleSizesAreRefused) {
  for (const size_t alignment : {size_t{8}, size_t{16}, size_t{64}, size_t{4096}, size_t{1} << 20, size_t{1} << 40}) {
    for (const size_t size : kImpossibleSizes) {
      errno = 0;
      EXPECT_EQ(hide(GetParam().allocate(alignment, hide(size))), nullptr) << alignment << " " << size;
      EXPECT_EQ(errno, ENOMEM) << alignment << " " << size;
    }
  }
}

TEST_P(Aligned, AlignmentsBeyondTheAddressSpaceAreRefused) {
  for (unsigned shift = 47; shift <= 63; ++shift) {
    errno = 0;
    EXPECT_EQ(hide(GetParam().allocate(size_t{1} << shift, hide(size_t{100}))), nullptr) << shift;
    EXPECT_EQ(errno, ENOMEM) << shift;
  }
}

TEST(AlignedAlloc, OtherThanPowersOfTwoAreInvalid) {
  for (const size_t alignment : {size_t{0}, size_t{3}, size_t{5}, size_t{24}, size_t{48}, size_t{100}, size_t{4095},
                                 size_t{4097}, size_t{PTRDIFF_MAX}, SIZE_MAX, SIZE_MAX - 1}) {
    errno = 0;
    EXPECT_EQ(hide(aligned_alloc(hide(alignment), 100)), nullptr) << alignment;
    EXPECT_EQ(errno, EINVAL) << alignment;
  }
}

TEST(AlignedAlloc, SizesNeedNotBeMultiplesOfTheAlignment) {  // C17 DR 460 and glibc
  void* block = hide(aligned_alloc(256, 100));
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(is_aligned(block, 256));
  free(block);
}

TEST(PosixMemalign, InvalidAlignmentsLeaveResultAndErrnoAlone) {
  for (const size_t alignment :
       {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{7}, size_t{9}, size_t{12}, size_t{24}, size_t{48},
        size_t{100}, size_t{4095}, size_t{4104}, SIZE_MAX, SIZE_MAX - 7}) {
    int marker = 0;
    void* result = &marker;
    errno = 4242;
    EXPECT_EQ(posix_memalign(&result, hide(alignment), 100), EINVAL) << alignment;
    EXPECT_EQ(result, &marker) << alignment;
    EXPECT_EQ(errno, 4242) << alignment;
  }
}

// glibc's own tests ask errno, and glibc sets it.
TEST(PosixMemalign, NoMemoryLeavesResultAloneAndSetsErrno) {
  for (const size_t alignment :
       {size_t{8}, size_t{64}, size_t{4096}, size_t{1} << 21, size_t{1} << 46, size_t{1} << 62, size_t{1} << 63}) {
    for (const size_t size : kImpossibleSizes) {
      int marker = 0;
      void* result = &marker;
      errno = 4242;
      EXPECT_EQ(posix_memalign(&result, alignment, hide(size)), ENOMEM) << alignment << " " << size;
      EXPECT_EQ(result, &marker);
      EXPECT_EQ(errno, ENOMEM);
    }
  }
}

TEST(PosixMemalign, SuccessLeavesErrnoAlone) {
  for (const size_t size : kInterestingSizes) {
    void* block = nullptr;
    errno = 4242;
    ASSERT_EQ(posix_memalign(&block, 64, size), 0);
    EXPECT_EQ(errno, 4242);
    ASSERT_NE(block, nullptr);
    free(block);
  }
}

TEST(Memalign, OtherAlignmentsAreRoundedUpToAPowerOfTwo) {
  struct Case {
    size_t asked, given;
  };
  for (const Case& each :
       {Case{0, 1}, Case{1, 1}, Case{3, 4}, Case{17, 32}, Case{24, 32}, Case{48, 64}, Case{100, 128}, Case{1000, 1024},
        Case{4095, 4096}, Case{4097, 8192}, Case{65537, 131072}, Case{1000000, 1 << 20}}) {
    void* block = hide(memalign(hide(each.asked), 40));
    ASSERT_NE(block, nullptr) << each.asked;
    EXPECT_TRUE(is_aligned(block, each.given)) << each.asked;
    EXPECT_GE(malloc_usable_size(block), 40u);
    free(block);
  }
}

TEST(Memalign, AlignmentsThatCannotBeRoundedUpAreInvalid) {
  for (const size_t alignment : {(size_t{1} << 63) + 1, SIZE_MAX - 4096, SIZE_MAX - 1, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(hide(memalign(hide(alignment), 40)), nullptr);
    EXPECT_EQ(errno, EINVAL) << alignment;
  }
}

TEST(Valloc, GivesWholePageAlignment) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t size : kInterestingSizes) {
    void* block = hide(valloc(hide(size)));
    ASSERT_NE(block, nullptr) << size;
    EXPECT_TRUE(is_aligned(block, page)) << size;
    EXPECT_GE(malloc_usable_size(block), size);
    memset(block, 1, size);
    free(block);
  }
}

TEST(Pvalloc, RoundsTheSizeUpToWholePages) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t size : kInterestingSizes) {
    void* block = hide(pvalloc(hide(size)));
    ASSERT_NE(block, nullptr) << size;
    EXPECT_TRUE(is_aligned(block, page)) << size;
    const size_t rounded = (size + page - 1) / page * page;
    EXPECT_GE(malloc_usable_size(block), rounded) << size;
    memset(block, 1, rounded);
    free(block);
  }
}

TEST(Valloc, ImpossibleSizesAreRefusedWithEnomem) {
  for (const size_t size : kImpossibleSizes) {
    errno = 0;
    EXPECT_EQ(hide(valloc(hide(size))), nullptr) << size;
    EXPECT_EQ(errno, ENOMEM) << size;
    errno = 0;
    EXPECT_EQ(hide(pvalloc(hide(size))), nullptr) << size;
    EXPECT_EQ(errno, ENOMEM) << size;
  }
}

TEST(MallocUsableSize, OfNullIsZero) { EXPECT_EQ(malloc_usable_size(hide(static_cast<void*>(nullptr))), 0u); }

size_t clamp_to_frame(size_t bytes) { return bytes > 2 * kKiB ? 64 * kKiB : bytes; }

TEST(MallocUsableSize, NeverExceedsWhatWasAskedByMoreThanAQuarter) {
  // Not a promise of the interface but of the size classes: at least four a doubling. The first few blocks of a class
  // may be larger ones (cache/loans.h).
  constexpr int kMostLoans = 64;
  for (size_t size = 128; size <= kLargestSmall; size += 61) {
    for (int i = 0; i < kMostLoans; ++i) free(hide(malloc(hide(size))));
    void* block = hide(malloc(hide(size)));
    ASSERT_NE(block, nullptr);
    const size_t usable = malloc_usable_size(block);
    if (on_flagship()) {
      EXPECT_LE(usable, size + size / 4 + 16) << size;
    } else {  // classes as their papers have them, and whole frames where these end
      EXPECT_LE(usable, clamp_to_frame(2 * size)) << size;
    }
    free(block);
  }
}

TEST(MallocUsableSize, IsTheSameEachTime) {
  for (const size_t size : kInterestingSizes) {
    void* block = hide(malloc(hide(size)));
    const size_t first = malloc_usable_size(block);
    fill(block, first, 1);
    EXPECT_EQ(malloc_usable_size(block), first);
    free(block);
  }
}

}  // namespace
}  // namespace freeway::test
