// SPDX-License-Identifier: MIT
//
// statistics_test.cc: glibc's windows into the heap: mallinfo, mallinfo2, malloc_info, malloc_stats, malloc_trim,
// mallopt. They must not only exist: what they say is compared with what the test has just done.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "abi_test.h"
#include "xml_check.h"

namespace freeway::test {
namespace {

// Room for what the test itself and the reading may allocate meanwhile.
constexpr size_t kNoise = 64 * kKiB;

size_t bytes_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(Mallinfo2, BytesInUseFollowMallocAndFree) {
  for (const size_t size :
       {size_t{16}, size_t{100}, size_t{1000}, size_t{5000}, size_t{32768}, size_t{100000}, size_t{5000000}}) {
    const size_t count = 16 * kMiB / size;
    std::vector<void*> blocks(count);
    const size_t before = bytes_in_use();
    size_t usable = 0;
    for (void*& block : blocks) {
      block = hide(malloc(hide(size)));
      ASSERT_NE(block, nullptr);
      usable += malloc_usable_size(block);
    }
    const size_t during = bytes_in_use();
    EXPECT_GE(during + kNoise, before + count * size) << size;
    EXPECT_LE(during, before + usable + count * 16 + kNoise) << size;
    for (void* block : blocks) free(block);
    const size_t after = bytes_in_use();
    EXPECT_LE(after, before + kNoise) << size;
    EXPECT_LE(before, after + kNoise) << size;
  }
}

TEST(Mallinfo2, CountsHugeBlocksAsMapped) {
  const struct mallinfo2 before = mallinfo2();
  void* block = hide(malloc(hide(2 * kLargestLarge)));
  ASSERT_NE(block, nullptr);
  const struct mallinfo2 during = mallinfo2();
  EXPECT_GE(during.hblkhd, before.hblkhd + 2 * kLargestLarge);
  EXPECT_EQ(during.hblks, before.hblks + 1);
  free(block);
  const struct mallinfo2 after = mallinfo2();
  EXPECT_EQ(after.hblks, before.hblks);
  EXPECT_EQ(after.hblkhd, before.hblkhd);
}

TEST(Mallinfo2, FieldsAgreeWithEachOther) {
  std::vector<void*> blocks;
  for (int i = 0; i < 5000; ++i) blocks.push_back(hide(malloc(hide(size_t(i)))));
  for (int i = 0; i < 5000; i += 2) free(blocks[size_t(i)]), blocks[size_t(i)] = nullptr;
  const struct mallinfo2 info = mallinfo2();
  // Superblocks have a rest that is too small for a block; beyond that everything is either in use or free.
  EXPECT_GE(info.arena, info.uordblks + info.fordblks);
  EXPECT_LE(info.arena, (info.uordblks + info.fordblks) / 20 * 21);
  EXPECT_GT(info.arena, 0u);
  EXPECT_GT(info.fordblks, 0u);
  EXPECT_LE(info.keepcost, info.fordblks);
  for (void* block : blocks) free(block);
}

TEST(Mallinfo, IsMallinfo2WithIntegers) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  void* block = hide(malloc(hide(3 * kMiB)));
  const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  const struct mallinfo2 wide = mallinfo2();
  EXPECT_EQ(narrow.uordblks, static_cast<int>(wide.uordblks));
  EXPECT_EQ(narrow.hblks, static_cast<int>(wide.hblks));
  EXPECT_EQ(narrow.hblkhd, static_cast<int>(wide.hblkhd));
  free(block);
}

std::string malloc_info_text() {
  // A buffer of our own: open_memstream would allocate while the heap is described.
  static char text[1 << 20];
  FILE* stream = fmemopen(text, sizeof text, "w");
  EXPECT_NE(stream, nullptr);
  EXPECT_EQ(malloc_info(0, stream), 0);
  fclose(stream);
  return text;
}

TEST(MallocInfo, WritesWellFormedXmlWithMallocAtTheRoot) {
  const std::string text = malloc_info_text();
  EXPECT_EQ(xml_fault(text), "") << text;
  EXPECT_NE(text.find("<malloc version=\""), std::string::npos) << text;
}

// The biggest of the numbers of all attributes called `name`.
size_t largest_attribute(const std::string& text, const std::string& name) {
  size_t largest = 0;
  const std::string pattern = " " + name + "=\"";
  for (size_t at = text.find(pattern); at != std::string::npos; at = text.find(pattern, at + 1)) {
    const size_t value = strtoull(text.c_str() + at + pattern.size(), nullptr, 10);
    if (value > largest) largest = value;
  }
  return largest;
}

TEST(MallocInfo, NumbersGrowWithTheHeap) {
  const size_t before = largest_attribute(malloc_info_text(), "size");
  std::vector<void*> blocks;
  for (int i = 0; i < 100000; ++i) blocks.push_back(hide(malloc(hide(size_t{1000}))));
  const size_t during = largest_attribute(malloc_info_text(), "size");
  for (void* block : blocks) free(block);
  EXPECT_GE(during, before + 50 * kMiB);
}

TEST(MallocInfo, RefusesOptionsOtherThanZero) {
  static char text[4096];
  FILE* stream = fmemopen(text, sizeof text, "w");
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(malloc_info(1, stream), EINVAL);
  fclose(stream);
  EXPECT_EQ(text[0], 0) << "nothing is written";
}

TEST(MallocStats, WritesToStandardErrorOnly) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  malloc_stats();
  fflush(stderr);
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_NE(error.find("live"), std::string::npos) << error;
}

TEST(MallocTrim, GivesFreedMemoryBack) {
  for (const size_t size : {size_t{64}, size_t{1000}, size_t{10000}, size_t{200000}}) {
    std::vector<void*> blocks(64 * kMiB / size);
    malloc_trim(0);
    const size_t before = anonymous_rss();
    for (void*& block : blocks) {
      block = hide(malloc(hide(size)));
      ASSERT_NE(block, nullptr);
      memset(block, 1, size);
    }
    for (void* block : blocks) free(block);
    const size_t freed = anonymous_rss();
    const int result = malloc_trim(0);
    const size_t after = anonymous_rss();
    EXPECT_LE(after, before + 4 * kMiB) << size;
    if (freed > before + 8 * kMiB) { EXPECT_EQ(result, 1) << size << ": memory was released"; }
  }
}

TEST(MallocTrim, HasNothingToDoTheSecondTime) {
  malloc_trim(0);
  malloc_trim(0);
  EXPECT_EQ(malloc_trim(0), 0);
}

TEST(MallocTrim, LeavesLiveBlocksAlone) {
  std::vector<unsigned char*> blocks;
  for (int i = 0; i < 20000; ++i) {
    blocks.push_back(static_cast<unsigned char*>(hide(malloc(hide(size_t(i % 3000 + 1))))));
    fill(blocks.back(), size_t(i % 3000 + 1), unsigned(i));
  }
  for (int i = 0; i < 20000; ++i)
    if (i % 3 != 0) free(blocks[size_t(i)]);
  malloc_trim(0);
  malloc_trim(kMiB);
  for (int i = 0; i < 20000; i += 3) {
    ASSERT_TRUE(holds(blocks[size_t(i)], size_t(i % 3000 + 1), unsigned(i)));
    free(blocks[size_t(i)]);
  }
}

TEST(Mallopt, AcceptsWhatGlibcAccepts) {
  struct Parameter {
    int name, value;
  };
  for (const Parameter& each :
       {Parameter{M_MXFAST, 64}, Parameter{M_TRIM_THRESHOLD, 128 * 1024}, Parameter{M_TOP_PAD, 128 * 1024},
        Parameter{M_MMAP_THRESHOLD, 128 * 1024}, Parameter{M_MMAP_MAX, 65536}, Parameter{M_CHECK_ACTION, 3},
        Parameter{M_PERTURB, 0}, Parameter{M_ARENA_TEST, 8}, Parameter{M_ARENA_MAX, 8}}) {
    EXPECT_EQ(mallopt(each.name, each.value), 1) << each.name;
    void* block = hide(malloc(300000));
    EXPECT_NE(block, nullptr);
    free(block);
  }
}

}  // namespace
}  // namespace freeway::test
