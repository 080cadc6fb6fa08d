// SPDX-License-Identifier: MIT
//
// replaced_new_test.cc: a program that replaces only `operator new(size_t)` and `operator delete(void*)`, as C++ allows
// ([replacement.functions]). The other forms are required to call these two ([new.delete.single], [new.delete.array]),
// so none may go past them: a sized delete that did would give Freeway a pointer into the program's own pool.
#include <gtest/gtest.h>

#include <new>

#include "abi_test.h"

extern "C" {
struct SizedPointer {
  void* p;
  size_t n;
};
SizedPointer sized_new(size_t size) __asm__("__size_returning_new");
}

namespace {

// A pool that never reuses: enough for what runs before main too. Overflow is an honest bad_alloc.
alignas(64) unsigned char pool[32 << 20];
size_t pool_used = 0;
size_t news = 0;
size_t deletes = 0;

bool in_pool(const void* block) {
  const auto* byte = static_cast<const unsigned char*>(block);
  return byte >= pool && byte < pool + sizeof pool;
}

}  // namespace

void* operator new(size_t size) {
  ++news;
  const size_t rounded = (size + 15) / 16 * 16;
  if (rounded < size || rounded > sizeof pool - pool_used) throw std::bad_alloc();
  void* block = pool + pool_used;
  pool_used += rounded;
  return block;
}

// The sized form is left out on purpose: it is what this test is about.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsized-deallocation"
void operator delete(void* block) noexcept {
  ++deletes;
  if (block != nullptr && !in_pool(block)) abort();
}
#pragma GCC diagnostic pop

namespace freeway::test {
namespace {

TEST(ReplacedOperatorNew, IsWhatTheArrayAndNothrowFormsCall) {
  const size_t before = news;
  void* array = hide(::operator new[](hide(size_t{100})));
  void* nothrow = hide(::operator new(hide(size_t{100}), std::nothrow));
  void* nothrow_array = hide(::operator new[](hide(size_t{100}), std::nothrow));
  EXPECT_TRUE(in_pool(array));
  EXPECT_TRUE(in_pool(nothrow));
  EXPECT_TRUE(in_pool(nothrow_array));
  EXPECT_EQ(news, before + 3);
  EXPECT_EQ(hide(::operator new(hide(sizeof pool), std::nothrow)), nullptr);
}

// Its blocks go to the program's delete.
TEST(ReplacedOperatorNew, IsWhatTheSizeReturningFormCalls) {
  const size_t before = news;
  const SizedPointer block = sized_new(hide(size_t{100}));
  EXPECT_TRUE(in_pool(hide(block.p)));
  EXPECT_EQ(block.n, 100u);
  EXPECT_EQ(news, before + 1);
}

TEST(ReplacedOperatorDelete, IsWhatTheOtherFormsCall) {
  void* blocks[6];
  for (void*& block : blocks) block = hide(::operator new(hide(size_t{40})));
  const size_t before = deletes;
  ::operator delete(blocks[0], size_t{40});
  ::operator delete(blocks[1], std::nothrow);
  ::operator delete[](blocks[2]);
  ::operator delete[](blocks[3], size_t{40});
  ::operator delete[](blocks[4], std::nothrow);
  ::operator delete(blocks[5]);
  EXPECT_EQ(deletes, before + 6);
}

TEST(ReplacedOperatorNew, AlignedFormsAreNotAffected) {
  const size_t before = news;
  void* block = hide(::operator new(hide(size_t{100}), std::align_val_t{256}));
  EXPECT_FALSE(in_pool(block));
  EXPECT_TRUE(is_aligned(block, 256));
  ::operator delete(block, size_t{100}, std::align_val_t{256});
  EXPECT_EQ(news, before);
}

}  // namespace
}  // namespace freeway::test
