// SPDX-License-Identifier: MIT
//
// The functions with flags: sizes, alignments, zeroes, contents, and the same under je_ names.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "freeway/freeway.h"
#include "jemalloc/jemalloc.h"

namespace {

// Around each size class, and some that have none.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all = {1, 100, 40000, 65536, 65537, 1000000, 3000001};
  for (std::size_t size = 16; size <= 40000; size += size / 8)
    for (const std::size_t near : {size - 1, size, size + 1}) all.push_back(near);
  return all;
}

bool is_guarded(void* block) {
  freeway_block_info_t info;
  freeway_block_info(block, &info, sizeof info);
  return info.kind == FREEWAY_GUARDED_BLOCK;
}

bool all_bytes_are(const void* block, std::size_t begin, std::size_t end, unsigned char value) {
  const auto* bytes = static_cast<const unsigned char*>(block);
  for (std::size_t i = begin; i < end; ++i)
    if (bytes[i] != value) return false;
  return true;
}

bool is_aligned(const void* block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

// Frees blocks full of ones, so that the next ones of that size are not zero by chance.
void soil(std::size_t size) {
  void* blocks[8];
  for (void*& block : blocks) std::memset(block = malloc(size), 0xff, size);
  for (void* block : blocks) free(block);
}

TEST(Flags, AreWhatProgramsWereCompiledWith) {
  // Numbers of jemalloc's binary interface.
  EXPECT_EQ(MALLOCX_LG_ALIGN(12), 12);
  EXPECT_EQ(MALLOCX_ALIGN(std::size_t{1} << 12), 12);
  EXPECT_EQ(MALLOCX_ALIGN(std::size_t{1} << 33), 33);
  EXPECT_EQ(MALLOCX_ZERO, 0x40);
  EXPECT_EQ(MALLOCX_TCACHE_NONE, 0x100);
  EXPECT_EQ(MALLOCX_TCACHE(0), 0x200);
  EXPECT_EQ(MALLOCX_ARENA(0), 0x100000);
}

TEST(Nallocx, SaysWhatMallocxGives) {
  for (const std::size_t size : sizes())
    for (int lg = 0; lg <= 16; ++lg) {
      void* block = mallocx(size, MALLOCX_LG_ALIGN(lg));
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(is_aligned(block, std::size_t{1} << lg)) << size << " at 2^" << lg;
      if (!is_guarded(block)) {
        ASSERT_EQ(nallocx(size, MALLOCX_LG_ALIGN(lg)), sallocx(block, 0)) << size << " at 2^" << lg;
      }
      dallocx(block, MALLOCX_LG_ALIGN(lg));
    }
}

TEST(Nallocx, OfWhatCannotBeIsZero) {
  EXPECT_EQ(nallocx(SIZE_MAX, 0), 0u);
  EXPECT_EQ(nallocx(std::size_t{1} << 63, 0), 0u);
  EXPECT_EQ(nallocx(1, MALLOCX_LG_ALIGN(63)), 0u);
  EXPECT_EQ(mallocx(SIZE_MAX, 0), nullptr);
  EXPECT_EQ(mallocx(PTRDIFF_MAX, MALLOCX_ZERO), nullptr);
  EXPECT_EQ(mallocx(1, MALLOCX_LG_ALIGN(63)), nullptr);
}

TEST(Mallocx, ZeroesTheWholeBlock) {
  for (const std::size_t size : sizes())
    for (const int lg : {0, 4, 6, 12}) {
      soil(size);
      void* block = mallocx(size, MALLOCX_ZERO | MALLOCX_LG_ALIGN(lg));
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(all_bytes_are(block, 0, sallocx(block, 0), 0)) << size << " at 2^" << lg;
      std::memset(block, 0xff, sallocx(block, 0));
      dallocx(block, 0);
    }
}

TEST(Mallocx, AcceptsArenasAndCaches) {
  const int flags = MALLOCX_ARENA(7) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(256);
  void* block = mallocx(100, flags);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(is_aligned(block, 256));
  block = rallocx(block, 5000, flags);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(is_aligned(block, 256));
  sdallocx(block, 5000, flags);
}

TEST(Mallocx, OfNothingIsABlock) {
  void* block = mallocx(0, 0);
  ASSERT_NE(block, nullptr);
  block = rallocx(block, 0, 0);
  ASSERT_NE(block, nullptr) << "a caller would take the old one for live";
  dallocx(block, 0);
}

TEST(Rallocx, KeepsContentsAndAlignment) {
  for (const int lg : {0, 5, 8, 12})
    for (const std::size_t from : {1u, 40u, 1000u, 5000u, 40000u, 300000u})
      for (const std::size_t to : {1u, 64u, 900u, 6000u, 70000u, 500000u}) {
        const int flags = MALLOCX_LG_ALIGN(lg);
        void* block = mallocx(from, flags);
        std::memset(block, 0x5a, from);
        block = rallocx(block, to, flags);
        ASSERT_NE(block, nullptr);
        ASSERT_TRUE(is_aligned(block, std::size_t{1} << lg)) << from << " to " << to;
        ASSERT_GE(sallocx(block, 0), to);
        ASSERT_TRUE(all_bytes_are(block, 0, std::min(from, to), 0x5a)) << from << " to " << to;
        dallocx(block, flags);
      }
}

TEST(Rallocx, ZeroesWhatIsNew) {
  for (const int lg : {0, 8})
    for (const std::size_t from : {1u, 40u, 1000u, 5000u, 40000u, 300000u})
      for (const std::size_t to : {1u, 64u, 900u, 6000u, 70000u, 500000u}) {
        const int flags = MALLOCX_ZERO | MALLOCX_LG_ALIGN(lg);
        soil(to);
        void* block = mallocx(from, flags);
        const std::size_t old_size = sallocx(block, 0);
        std::memset(block, 0x5a, old_size);
        block = rallocx(block, to, flags);
        ASSERT_NE(block, nullptr);
        const std::size_t new_size = sallocx(block, 0), kept = std::min(old_size, new_size);
        ASSERT_TRUE(all_bytes_are(block, 0, kept, 0x5a)) << from << " to " << to;
        ASSERT_TRUE(all_bytes_are(block, kept, new_size, 0)) << from << " to " << to;
        dallocx(block, 0);
      }
}

TEST(Rallocx, ThatFailsLeavesTheBlock) {
  for (const int flags : {0, MALLOCX_ZERO, MALLOCX_ALIGN(64)}) {
    char* block = static_cast<char*>(mallocx(100, flags));
    std::strcpy(block, "still here");
    EXPECT_EQ(rallocx(block, SIZE_MAX / 2, flags), nullptr);
    EXPECT_STREQ(block, "still here");
    dallocx(block, flags);
  }
}

TEST(Xallocx, NeverMovesAndSaysTheRealSize) {
  void* block = mallocx(100, 0);
  const std::size_t size = sallocx(block, 0);
  EXPECT_EQ(xallocx(block, 50, 0, 0), size);
  EXPECT_EQ(xallocx(block, 100000, 50, 0), size);
  EXPECT_EQ(sallocx(block, 0), size);
  dallocx(block, 0);
}

TEST(Blocks, AreThoseOfMalloc) {
  // Programs mix both families; so a block of one may be given back through the other.
  free(mallocx(100, 0));
  dallocx(malloc(100), 0);
  sdallocx(malloc(100), 100, 0);
  void* block = malloc(100);
  EXPECT_EQ(sallocx(block, 0), malloc_usable_size(block));
  block = rallocx(block, 1000, 0);
  free(block);
  freeway_free(mallocx(100, MALLOCX_ZERO));
}

TEST(Hint, IsFreewaysOwn) {
  // All blocks of a superblock but a few are freed: then moving those is worth it, and both say so for the same blocks.
  std::vector<void*> blocks(20000);
  for (void*& block : blocks) block = malloc(256);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (i % 50 != 0) free(blocks[i]);
  unsigned hints = 0, others = 0;
  for (std::size_t i = 0; i < blocks.size(); i += 50) {
    const int hint = je_get_defrag_hint(blocks[i]);
    others += hint != freeway_should_move(blocks[i]);
    hints += hint != 0;
  }
  EXPECT_LE(others, 1u) << "a first asking may make a block's own superblock the one that malloc allocates from";
  const char* harden = std::getenv("FREEWAY_HARDEN");
  EXPECT_EQ(hints > 100, harden == nullptr) << hints;
  for (std::size_t i = 0; i < blocks.size(); i += 50) free(blocks[i]);
}

template <class Function> Function* prefixed(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function*>(found);
}

TEST(Prefixed, DoTheSame) {
  char* block = static_cast<char*>(prefixed<void*(std::size_t)>("je_malloc")(10));
  block = static_cast<char*>(prefixed<void*(void*, std::size_t)>("je_realloc")(block, 100));
  EXPECT_EQ(prefixed<std::size_t(void*)>("je_malloc_usable_size")(block), malloc_usable_size(block));
  prefixed<void(void*)>("je_free")(block);
  block = static_cast<char*>(prefixed<void*(std::size_t, std::size_t)>("je_calloc")(10, 10));
  EXPECT_TRUE(all_bytes_are(block, 0, 100, 0));
  free(block);
  void* aligned = nullptr;
  EXPECT_EQ(prefixed<int(void**, std::size_t, std::size_t)>("je_posix_memalign")(&aligned, 256, 10), 0);
  EXPECT_TRUE(is_aligned(aligned, 256));
  free(aligned);
  for (const char* name : {"je_aligned_alloc", "je_memalign"}) {
    aligned = prefixed<void*(std::size_t, std::size_t)>(name)(512, 512);
    EXPECT_TRUE(is_aligned(aligned, 512)) << name;
    free(aligned);
  }
  aligned = prefixed<void*(std::size_t)>("je_valloc")(1);
  EXPECT_TRUE(is_aligned(aligned, 4096));
  free(aligned);
  void* flagged = prefixed<void*(std::size_t, int)>("je_mallocx")(100, MALLOCX_ALIGN(128));
  flagged = prefixed<void*(void*, std::size_t, int)>("je_rallocx")(flagged, 1000, MALLOCX_ALIGN(128));
  EXPECT_TRUE(is_aligned(flagged, 128));
  const std::size_t size = sallocx(flagged, 0);
  EXPECT_EQ(prefixed<std::size_t(void*, std::size_t, std::size_t, int)>("je_xallocx")(flagged, 2000, 0, 0), size);
  EXPECT_EQ(prefixed<std::size_t(const void*, int)>("je_sallocx")(flagged, 0), size);
  prefixed<void(void*, int)>("je_dallocx")(flagged, 0);
  prefixed<void(void*, std::size_t, int)>("je_sdallocx")(malloc(1), 1, 0);
  EXPECT_EQ(prefixed<std::size_t(std::size_t, int)>("je_nallocx")(100, 0), nallocx(100, 0));
  std::size_t page = 0, length = sizeof page, mib[2], parts = 2;
  EXPECT_EQ(prefixed<decltype(mallctl)>("je_mallctl")("arenas.page", &page, &length, nullptr, 0), 0);
  EXPECT_EQ(prefixed<decltype(mallctlnametomib)>("je_mallctlnametomib")("arenas.page", mib, &parts), 0);
  EXPECT_EQ(prefixed<decltype(mallctlbymib)>("je_mallctlbymib")(mib, parts, &page, &length, nullptr, 0), 0);
  bool printed = false;
  const auto write = [](void* opaque, const char*) { *static_cast<bool*>(opaque) = true; };
  prefixed<void(void (*)(void*, const char*), void*, const char*)>("je_malloc_stats_print")(write, &printed, nullptr);
  EXPECT_TRUE(printed);
}

}  // namespace
