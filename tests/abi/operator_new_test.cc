// SPDX-License-Identifier: MIT
//
// operator_new_test.cc: the allocation and deallocation functions of C++ ([new.delete]) in all 20 forms: blocks are
// aligned, apart and usable; what cannot be had throws bad_alloc or, in the nothrow forms, gives null; any delete takes
// any new's block.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "abi_test.h"

namespace freeway::test {
namespace {

constexpr size_t kSizes[] = {0, 1, 8, 16, 24, 100, 1000, 1024, 1025, 4096, 32768, 32769, 100000, 5000000};
constexpr std::align_val_t kAlignments[] = {std::align_val_t{1},    std::align_val_t{8},     std::align_val_t{16},
                                            std::align_val_t{32},   std::align_val_t{64},    std::align_val_t{256},
                                            std::align_val_t{4096}, std::align_val_t{65536}, std::align_val_t{1 << 21}};

void expect_usable(void* block, size_t size, size_t alignment) {
  ASSERT_NE(block, nullptr) << size;
  EXPECT_TRUE(is_aligned(block, alignment)) << size << " at " << alignment;
  ASSERT_GE(malloc_usable_size(block), size);
  fill(block, size, 4);
  EXPECT_TRUE(holds(block, size, 4));
}

TEST(OperatorNew, PlainAndArrayFormsWithEveryDelete) {
  for (const size_t size : kSizes) {
    void* block = nullptr;
    expect_usable(block = hide(::operator new(size)), size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    ::operator delete(block);
    expect_usable(block = hide(::operator new(size)), size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    ::operator delete(block, size);
    expect_usable(block = hide(::operator new(size)), size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    ::operator delete(block, std::nothrow);
    expect_usable(block = hide(::operator new[](size)), size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    ::operator delete[](block);
    expect_usable(block = hide(::operator new[](size)), size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    ::operator delete[](block, size);
    expect_usable(block = hide(::operator new[](size)), size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    ::operator delete[](block, std::nothrow);
  }
}

TEST(OperatorNew, NothrowForms) {
  for (const size_t size : kSizes) {
    void* block = nullptr;
    expect_usable(block = hide(::operator new(size, std::nothrow)), size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    ::operator delete(block, std::nothrow);
    expect_usable(block = hide(::operator new[](size, std::nothrow)), size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    ::operator delete[](block, std::nothrow);
  }
}

TEST(OperatorNew, AlignedForms) {
  for (const std::align_val_t alignment : kAlignments) {
    for (const size_t size : kSizes) {
      void* block = nullptr;
      const auto bytes = static_cast<size_t>(alignment);
      expect_usable(block = hide(::operator new(size, alignment)), size, bytes);
      ::operator delete(block, alignment);
      expect_usable(block = hide(::operator new(size, alignment)), size, bytes);
      ::operator delete(block, size, alignment);
      expect_usable(block = hide(::operator new[](size, alignment)), size, bytes);
      ::operator delete[](block, alignment);
      expect_usable(block = hide(::operator new[](size, alignment)), size, bytes);
      ::operator delete[](block, size, alignment);
      expect_usable(block = hide(::operator new(size, alignment, std::nothrow)), size, bytes);
      ::operator delete(block, alignment, std::nothrow);
      expect_usable(block = hide(::operator new[](size, alignment, std::nothrow)), size, bytes);
      ::operator delete[](block, alignment, std::nothrow);
    }
  }
}

TEST(OperatorNew, ImpossibleSizesThrowBadAlloc) {
  for (const size_t size : kImpossibleSizes) {
    const size_t hidden = hide(size);
    EXPECT_THROW(hide(::operator new(hidden)), std::bad_alloc) << size;
    EXPECT_THROW(hide(::operator new[](hidden)), std::bad_alloc) << size;
    EXPECT_THROW(hide(::operator new(hidden, std::align_val_t{64})), std::bad_alloc) << size;
    EXPECT_THROW(hide(::operator new[](hidden, std::align_val_t{64})), std::bad_alloc) << size;
    EXPECT_THROW(hide(::operator new(hidden, std::align_val_t{1 << 21})), std::bad_alloc) << size;
  }
}

TEST(OperatorNew, ImpossibleSizesGiveNullFromNothrowForms) {
  for (const size_t size : kImpossibleSizes) {
    const size_t hidden = hide(size);
    EXPECT_EQ(hide(::operator new(hidden, std::nothrow)), nullptr) << size;
    EXPECT_EQ(hide(::operator new[](hidden, std::nothrow)), nullptr) << size;
    EXPECT_EQ(hide(::operator new(hidden, std::align_val_t{64}, std::nothrow)), nullptr) << size;
    EXPECT_EQ(hide(::operator new[](hidden, std::align_val_t{64}, std::nothrow)), nullptr) << size;
  }
}

TEST(OperatorDelete, NullDoesNothingInEveryForm) {
  const auto none = [] { return hide(static_cast<void*>(nullptr)); };
  const std::align_val_t alignment{64};
  ::operator delete(none());
  ::operator delete(none(), size_t{8});
  ::operator delete(none(), std::nothrow);
  ::operator delete(none(), alignment);
  ::operator delete(none(), size_t{8}, alignment);
  ::operator delete(none(), alignment, std::nothrow);
  ::operator delete[](none());
  ::operator delete[](none(), size_t{8});
  ::operator delete[](none(), std::nothrow);
  ::operator delete[](none(), alignment);
  ::operator delete[](none(), size_t{8}, alignment);
  ::operator delete[](none(), alignment, std::nothrow);
}

TEST(OperatorDelete, BlocksComeBackForReuse) {
  const size_t before = anonymous_rss();
  for (int round = 0; round < 100000; ++round) {
    void* block = hide(::operator new(3000));
    memset(block, 1, 3000);
    switch (round % 4) {
      case 0: ::operator delete(block); break;
      case 1: ::operator delete(block, size_t{3000}); break;
      case 2: ::operator delete(block, std::nothrow); break;
      default:
        ::operator delete(block);
        block = hide(::operator new(3000, std::align_val_t{128}));
        memset(block, 1, 3000);
        ::operator delete(block, 3000, std::align_val_t{128});
    }
  }
  EXPECT_LE(anonymous_rss(), before + 32 * kMiB);
}

TEST(NewExpression, OveralignedTypesAndArrays) {
  struct alignas(128) Wide {
    unsigned char bytes[300];
  };
  std::vector<std::unique_ptr<Wide>> singles;
  std::vector<std::unique_ptr<Wide[]>> arrays;
  for (int i = 0; i < 500; ++i) {
    singles.push_back(std::make_unique<Wide>());
    arrays.push_back(std::make_unique<Wide[]>(3));
    ASSERT_TRUE(is_aligned(singles.back().get(), 128));
    ASSERT_TRUE(is_aligned(arrays.back().get(), 128));
  }
}

TEST(NewExpression, ConstructorThatThrowsGivesItsMemoryBack) {
  struct Throws {
    char space[20000];
    Throws() { memset(space, 1, sizeof space), throw 7; }
  };
  const size_t before = anonymous_rss();
  int caught = 0;
  for (int i = 0; i < 20000; ++i) {
    try {
      hide(new Throws);
    } catch (int) { ++caught; }
  }
  EXPECT_EQ(caught, 20000);
  EXPECT_LE(anonymous_rss(), before + 32 * kMiB);
}

TEST(NewExpression, ContainersWork) {
  std::vector<std::string> lines;
  for (int i = 0; i < 20000; ++i)
    lines.push_back(std::string(static_cast<size_t>(i % 200), static_cast<char>('a' + i % 26)));
  for (int i = 0; i < 20000; ++i)
    ASSERT_EQ(lines[size_t(i)], std::string(static_cast<size_t>(i % 200), static_cast<char>('a' + i % 26)));
}

}  // namespace
}  // namespace freeway::test
