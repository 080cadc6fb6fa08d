// SPDX-License-Identifier: MIT
//
// huge_pages_test.cc: which of the heap's memory may come in huge pages, where the system's default is to give them to all
// (transparent_hugepage/enabled: always). The kernel says it for each mapping, whatever the default is: "nh" among the
// VmFlags of /proc/self/smaps.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <sstream>

#include "stress_test.h"

namespace freeway::test {
namespace {

// Whether the mapping that the address lies in does with small pages.
bool has_small_pages(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream(line) >> std::hex >> begin >> dash >> end && dash == '-')
      here = begin <= wanted && wanted < end;
    else if (here && line.starts_with("VmFlags:"))
      return line.find(" nh") != std::string::npos;
  }
  ADD_FAILURE() << address << " lies in no mapping";
  return false;
}

class HugePages : public testing::Test {
 protected:
  void SetUp() override {
    void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (madvise(page, 4096, MADV_NOHUGEPAGE) != 0) GTEST_SKIP() << "a kernel without transparent huge pages";
    munmap(page, 4096);
  }
};

TEST_F(HugePages, ASmallHeapDoesWithSmallPages) {
  for (const size_t bytes : {size_t{16}, kKiB, 20 * kKiB, 3 * kMiB, 20 * kMiB}) {
    auto* block = static_cast<unsigned char*>(hide(malloc(bytes)));
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(has_small_pages(block)) << bytes;
    EXPECT_TRUE(has_small_pages(block + bytes - 1)) << bytes;
    free(block);
  }
}

TEST_F(HugePages, ALargeHeapMayHaveThem) {
  auto* block = static_cast<unsigned char*>(hide(malloc(200 * kMiB)));
  ASSERT_NE(block, nullptr);
  EXPECT_FALSE(has_small_pages(block + 100 * kMiB));
  EXPECT_FALSE(has_small_pages(block + 199 * kMiB));
  auto* huge = static_cast<unsigned char*>(hide(malloc(300 * kMiB)));
  ASSERT_NE(huge, nullptr);
  EXPECT_FALSE(has_small_pages(huge));
  free(huge);
  free(block);
}

}  // namespace
}  // namespace freeway::test
