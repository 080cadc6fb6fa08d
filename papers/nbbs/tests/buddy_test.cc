// SPDX-License-Identifier: MIT
// buddy_test.cc: freeway/buddy.h: what each function promises, in every form, one thread.
#include "freeway/buddy.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "tests/support/proof.h"

namespace {

struct Form {
  unsigned levels_per_word;
  unsigned flags;
};
constexpr Form kForms[] = {{1, 0},
                           {3, 0},
                           {4, 0},
                           {1, FREEWAY_BUDDY_UP},
                           {3, FREEWAY_BUDDY_UP},
                           {4, FREEWAY_BUDDY_UP},
                           {1, FREEWAY_BUDDY_PUBLISHED},
                           {3, FREEWAY_BUDDY_PUBLISHED},
                           {4, FREEWAY_BUDDY_PUBLISHED},
                           {1, FREEWAY_BUDDY_SPIN},
                           {3, FREEWAY_BUDDY_SPIN},
                           {4, FREEWAY_BUDDY_SPIN}};

// A buddy over memory of its own. The metadata is dirty, so that its clearing is part of the test.
struct Heap {
  explicit Heap(const freeway_buddy_options_t& o)
      : options(o),
        bytes(freeway_buddy_metadata_size(&options)),
        managed(options.min_block << (options.levels - 1)),
        metadata(std::aligned_alloc(64, (bytes + 63) / 64 * 64)),
        memory(std::aligned_alloc(4096, (managed + 4095) / 4096 * 4096)) {
    memset(metadata, 0xa5, bytes);
    buddy = freeway_buddy_create(metadata, bytes, memory, &options);
  }
  ~Heap() {
    std::free(metadata);
    std::free(memory);
  }
  char* at(size_t offset) { return static_cast<char*>(memory) + offset; }
  size_t offset(void* block) { return static_cast<size_t>(static_cast<char*>(block) - at(0)); }

  freeway_buddy_options_t options;
  size_t bytes, managed;
  void *metadata, *memory;
  freeway_buddy_t* buddy;
};

class Buddy : public testing::TestWithParam<Form> {
 protected:
  freeway_buddy_options_t options(unsigned levels, size_t min_block, size_t max_block = 0) {
    return {levels, GetParam().levels_per_word, min_block, max_block, GetParam().flags};
  }
  bool published() { return (GetParam().flags & FREEWAY_BUDDY_PUBLISHED) != 0; }
};
INSTANTIATE_TEST_SUITE_P(AllForms, Buddy, testing::ValuesIn(kForms));

// Level counts that a bunch's height divides, and others.
TEST_P(Buddy, AllSmallestBlocksCanBeHadOnceAndAreDisjoint) {
  for (unsigned levels : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 10U}) {
    Heap heap(options(levels, 16));
    ASSERT_NE(heap.buddy, nullptr);
    std::set<size_t> offsets;
    for (size_t i = 0; i < size_t{1} << (levels - 1); ++i) {
      freeway_buddy_scatter(i * 7);
      void* block = freeway_buddy_alloc(heap.buddy, 16);
      ASSERT_NE(block, nullptr);
      EXPECT_TRUE(offsets.insert(heap.offset(block)).second);
      EXPECT_EQ(heap.offset(block) % 16, 0U);
      EXPECT_LT(heap.offset(block), heap.managed);
    }
    errno = 0;
    EXPECT_EQ(freeway_buddy_alloc(heap.buddy, 1), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    for (size_t offset : offsets) EXPECT_EQ(freeway_buddy_free(heap.buddy, heap.at(offset)), 0);
    void* all = freeway_buddy_alloc(heap.buddy, heap.managed);
    EXPECT_EQ(all, heap.memory) << "what was split comes together again";
  }
}

TEST_P(Buddy, BlocksAreThePowerOfTwoThatHoldsThemAtAMultipleOfIt) {
  Heap heap(options(12, 32));
  for (size_t bytes : {0, 1, 31, 32, 33, 64, 65, 1000, 1024, 1025, 32768}) {
    size_t size = 32;
    while (size < bytes) size *= 2;
    void* block = freeway_buddy_alloc(heap.buddy, bytes);
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(heap.offset(block) % size, 0U);
    EXPECT_EQ(freeway_buddy_usable_size(heap.buddy, block), size);
    EXPECT_EQ(freeway_buddy_free(heap.buddy, block), 0);
  }
}

TEST_P(Buddy, MoreThanTheLargestBlockIsRefused) {
  Heap heap(options(10, 16, 256));
  EXPECT_NE(freeway_buddy_alloc(heap.buddy, 256), nullptr);
  errno = 0;
  EXPECT_EQ(freeway_buddy_alloc(heap.buddy, 257), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(freeway_buddy_alloc_at(heap.buddy, heap.memory, 512), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_P(Buddy, FreeOfWhatIsNoBlockIsRefused) {
  Heap heap(options(8, 16));
  char* block = static_cast<char*>(freeway_buddy_alloc(heap.buddy, 64));
  for (char* wrong : {block + 16, block + 1, heap.at(0) - 16, heap.at(heap.managed)}) {
    errno = 0;
    EXPECT_EQ(freeway_buddy_free(heap.buddy, wrong), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(freeway_buddy_usable_size(heap.buddy, wrong), 0U);
  }
  errno = 5;
  EXPECT_EQ(freeway_buddy_free(heap.buddy, block), 0);
  EXPECT_EQ(freeway_buddy_free(heap.buddy, nullptr), 0);
  EXPECT_EQ(errno, 5);
  EXPECT_EQ(freeway_buddy_free(heap.buddy, block), -1) << "a double free";
}

TEST_P(Buddy, BlocksCanBeHadAtAnAddress) {
  Heap heap(options(9, 16));
  char* block = static_cast<char*>(freeway_buddy_alloc_at(heap.buddy, heap.at(1024), 200));
  EXPECT_EQ(block, heap.at(1024));
  errno = 0;
  EXPECT_EQ(freeway_buddy_alloc_at(heap.buddy, heap.at(1024), 16), nullptr) << "within the block";
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(freeway_buddy_alloc_at(heap.buddy, heap.at(0), 2048), nullptr) << "around it";
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(freeway_buddy_alloc_at(heap.buddy, heap.at(48), 32), nullptr) << "no such block begins there";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(freeway_buddy_alloc_at(heap.buddy, heap.at(heap.managed), 16), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(freeway_buddy_free(heap.buddy, block), 0);
  EXPECT_EQ(freeway_buddy_alloc_at(heap.buddy, heap.at(0), 2048), heap.at(0));
}

TEST_P(Buddy, ABlockCanBeExtendedByWhatLiesBehindIt) {
  Heap heap(options(9, 16));
  char* block = static_cast<char*>(freeway_buddy_alloc_at(heap.buddy, heap.at(512), 64));
  EXPECT_EQ(freeway_buddy_extend(heap.buddy, block, 64), block + 64);
  errno = 0;
  EXPECT_EQ(freeway_buddy_extend(heap.buddy, block, 64), nullptr) << "it is taken now";
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(freeway_buddy_extend(heap.buddy, block + 64, 128), block + 128);
  errno = 0;
  EXPECT_EQ(freeway_buddy_extend(heap.buddy, block + 128, 512), nullptr) << "768 is no multiple of 512";
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(freeway_buddy_extend(heap.buddy, block + 16, 64), nullptr) << "no block";
  EXPECT_EQ(errno, EINVAL);
  for (size_t offset : {0, 64, 128}) EXPECT_EQ(freeway_buddy_free(heap.buddy, block + offset), 0) << offset;
}

TEST_P(Buddy, StatisticsAddUp) {
  Heap heap(options(10, 16));
  freeway_buddy_stats_t stats;
  ASSERT_EQ(freeway_buddy_stats(heap.buddy, &stats), 0);
  EXPECT_EQ(stats.managed, heap.managed);
  EXPECT_EQ(stats.metadata, heap.bytes);
  EXPECT_EQ(stats.blocks, 0U);
  EXPECT_EQ(stats.largest_free, published() ? 0U : heap.managed);
  void* blocks[] = {freeway_buddy_alloc_at(heap.buddy, heap.at(0), 16),
                    freeway_buddy_alloc_at(heap.buddy, heap.at(heap.managed / 2), 1024)};
  ASSERT_EQ(freeway_buddy_stats(heap.buddy, &stats), 0);
  EXPECT_EQ(stats.blocks, 2U);
  EXPECT_EQ(stats.used, 1040U);
  EXPECT_EQ(stats.largest_free, published() ? 0U : heap.managed / 4);
  for (void* block : blocks) EXPECT_EQ(freeway_buddy_free(heap.buddy, block), 0);
  ASSERT_EQ(freeway_buddy_stats(heap.buddy, &stats), 0);
  EXPECT_EQ(stats.blocks + stats.used, 0U);
}

// The same metadata and memory at two addresses at once, as in two processes.
TEST_P(Buddy, ItCanBeUsedThroughSeveralMappings) {
  const freeway_buddy_options_t o = options(10, 16);
  const size_t managed = 16 << 9, metadata = (freeway_buddy_metadata_size(&o) + 4095) / 4096 * 4096;
  const int file = memfd_create("buddy", 0);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(metadata + managed)), 0);
  char* view[2];
  for (char*& each : view)
    each = static_cast<char*>(mmap(nullptr, metadata + managed, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(view[0], view[1]);
  errno = 0;
  EXPECT_EQ(freeway_buddy_attach(view[1]), nullptr) << "nobody made one there yet";
  EXPECT_EQ(errno, EINVAL);
  freeway_buddy_options_t zeroed = o;
  zeroed.flags |= FREEWAY_BUDDY_ZEROED;
  ASSERT_NE(freeway_buddy_create(view[0], metadata, view[0] + metadata, &zeroed), nullptr);
  freeway_buddy_t* one = freeway_buddy_attach(view[0]);
  freeway_buddy_t* other = freeway_buddy_attach(view[1]);
  ASSERT_TRUE(one != nullptr && other != nullptr);
  char* a = static_cast<char*>(freeway_buddy_alloc(one, 100));
  char* b = static_cast<char*>(freeway_buddy_alloc(other, 100));
  EXPECT_NE(a - view[0], b - view[1]);
  EXPECT_GE(b, view[1] + metadata);
  strcpy(a, "seen in both");
  EXPECT_STREQ(view[1] + (a - view[0]), "seen in both");
  EXPECT_EQ(freeway_buddy_free(other, view[1] + (a - view[0])), 0);
  EXPECT_EQ(freeway_buddy_free(one, view[0] + (b - view[1])), 0);
  for (char* each : view) munmap(each, metadata + managed);
  close(file);
}

TEST(BuddyOptions, WhatMakesNoSenseIsRefused) {
  const freeway_buddy_options_t good = {10, 4, 16, 1024, 0};
  EXPECT_NE(freeway_buddy_metadata_size(&good), 0U);
  const freeway_buddy_options_t bad[] = {
      {0, 4, 16, 0, 0},      {41, 4, 16, 0, 0},
      {~0U, 4, 16, 0, 0},    {40, 4, 4096, 0, 0},  // level counts
      {10, 0, 16, 0, 0},     {10, 2, 16, 0, 0},
      {10, 5, 16, 0, 0},                         // levels in a word
      {10, 4, 0, 0, 0},      {10, 4, 24, 0, 0},  // smallest block
      {10, 4, 16, 8, 0},     {10, 4, 16, 48, 0},
      {10, 4, 16, 16384, 0},                                                         // largest block
      {10, 4, 16, 0, 16},    {10, 4, 16, 0, FREEWAY_BUDDY_UP | FREEWAY_BUDDY_SPIN},  // flags
  };
  alignas(64) static char metadata[4096];
  for (const auto& options : bad) {
    errno = 0;
    EXPECT_EQ(freeway_buddy_metadata_size(&options), 0U);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(freeway_buddy_create(metadata, sizeof(metadata), metadata, &options), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  const size_t bytes = freeway_buddy_metadata_size(&good);
  EXPECT_EQ(freeway_buddy_create(metadata + 8, bytes, metadata, &good), nullptr) << "misaligned";
  EXPECT_EQ(freeway_buddy_create(metadata, bytes - 1, metadata, &good), nullptr) << "too small";
  EXPECT_EQ(freeway_buddy_create(metadata, bytes, nullptr, &good), nullptr) << "no memory";
  EXPECT_NE(freeway_buddy_create(metadata, bytes, metadata, &good), nullptr);
}

// Every function of a buddy, with this handle: all refuse it with EINVAL.
void expect_no_buddy(freeway_buddy_t* handle, void* block) {
  freeway_buddy_stats_t stats;
  const auto expect_invalid = [](bool failed, const char* function) {
    EXPECT_TRUE(failed) << function;
    EXPECT_EQ(errno, EINVAL) << function;
    errno = 0;
  };
  errno = 0;
  expect_invalid(freeway_buddy_attach(handle) == nullptr, "attach");
  expect_invalid(freeway_buddy_alloc(handle, 16) == nullptr, "alloc");
  expect_invalid(freeway_buddy_alloc_at(handle, block, 16) == nullptr, "alloc_at");
  expect_invalid(freeway_buddy_extend(handle, block, 16) == nullptr, "extend");
  expect_invalid(freeway_buddy_free(handle, block) == -1, "free");
  expect_invalid(freeway_buddy_free(handle, nullptr) == -1, "free of NULL");
  expect_invalid(freeway_buddy_usable_size(handle, block) == 0, "usable_size");
  expect_invalid(freeway_buddy_stats(handle, &stats) == -1, "stats");
  expect_invalid(freeway_buddy_repair(handle, nullptr, 0) == -1, "repair");
  expect_invalid(freeway_buddy_repair(handle, block, 16) == -1, "repair below a block");
}

TEST(BuddyHandles, ThatAreNoneAreRefusedByEveryFunction) {
  Heap heap({8, 4, 16, 0, 0});
  alignas(64) char nothing[256] = {};
  expect_no_buddy(nullptr, heap.memory);
  expect_no_buddy(reinterpret_cast<freeway_buddy_t*>(nothing), heap.memory);
  memset(nothing, 0xa5, sizeof(nothing));
  expect_no_buddy(reinterpret_cast<freeway_buddy_t*>(nothing), heap.memory);
  expect_no_buddy(reinterpret_cast<freeway_buddy_t*>(static_cast<char*>(heap.metadata) + 1), heap.memory);
  expect_no_buddy(reinterpret_cast<freeway_buddy_t*>(static_cast<char*>(heap.metadata) + 64), heap.memory);
}

TEST(BuddyHandles, NullForWhatIsReadOrFilledInIsRefused) {
  Heap heap({8, 4, 16, 0, 0});
  errno = 0;
  EXPECT_EQ(freeway_buddy_metadata_size(nullptr), 0U);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(freeway_buddy_create(heap.metadata, heap.bytes, heap.memory, nullptr), nullptr);
  EXPECT_EQ(freeway_buddy_create(nullptr, heap.bytes, heap.memory, &heap.options), nullptr);
  EXPECT_EQ(freeway_buddy_stats(heap.buddy, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(BuddySizes, ThatNothingMeetsAreRefused) {
  Heap heap({8, 4, 16, 0, 0});
  void* block = freeway_buddy_alloc(heap.buddy, 16);
  for (const size_t size : {heap.managed + 1, size_t{PTRDIFF_MAX} - 1, size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} + 1,
                            SIZE_MAX - 15, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(freeway_buddy_alloc(heap.buddy, size), nullptr) << size;
    EXPECT_EQ(freeway_buddy_alloc_at(heap.buddy, heap.at(16), size), nullptr) << size;
    EXPECT_EQ(freeway_buddy_extend(heap.buddy, block, size), nullptr) << size;
    EXPECT_EQ(errno, ENOMEM) << size;
    EXPECT_EQ(freeway_buddy_repair(heap.buddy, heap.memory, size), -1) << size;
    EXPECT_EQ(errno, EINVAL) << size;
  }
  EXPECT_EQ(freeway_buddy_free(heap.buddy, block), 0);
}

// Any bit of what create wrote down: the magic number, the distance, the seal, the settings.
TEST(BuddyAttach, RefusesADamagedHeader) {
  Heap heap({8, 4, 16, 0, 0});
  auto* bytes = static_cast<unsigned char*>(heap.metadata);
  unsigned tried = 0;
  for (size_t at = 0; at < 84; at = at == 23 ? 64 : at + 1) {
    for (unsigned bit = 0; bit < 8; ++bit, ++tried) {
      bytes[at] = static_cast<unsigned char>(bytes[at] ^ 1U << bit);
      errno = 0;
      EXPECT_EQ(freeway_buddy_attach(heap.metadata), nullptr) << "byte " << at << " bit " << bit;
      EXPECT_EQ(errno, EINVAL);
      bytes[at] = static_cast<unsigned char>(bytes[at] ^ 1U << bit);
      EXPECT_EQ(freeway_buddy_attach(heap.metadata), heap.buddy);
    }
  }
  freeway::test::proof("bad input", "damaged headers of buddies", "headers", tried);
}

// Threads begin at different nodes, and the search goes around: FN + hash % (LS - FN + 1).
TEST(BuddySearch, BeginsAtTheThreadsNodeAndWrapsAround) {
  Heap heap({8, 4, 16, 0, 0});
  std::set<size_t> first;
  for (unsigned long number = 0; number < 2000; ++number) {
    freeway_buddy_scatter(number);
    void* block = freeway_buddy_alloc(heap.buddy, 16);
    first.insert(heap.offset(block));
    freeway_buddy_free(heap.buddy, block);
  }
  EXPECT_EQ(first.size(), 128U) << "every node is somebody's first";
  freeway_buddy_scatter(77);
  size_t before = heap.offset(freeway_buddy_alloc(heap.buddy, 16));
  for (int i = 1; i < 128; ++i) {
    const size_t offset = heap.offset(freeway_buddy_alloc(heap.buddy, 16));
    EXPECT_EQ(offset, (before + 16) % heap.managed);
    before = offset;
  }
}

}  // namespace
