// SPDX-License-Identifier: MIT
//
// huge_pages_test.cc: which of the heap's memory may come in huge pages: with FREEWAY_HUGE; where the system's default
// is to give them to all (transparent_hugepage/enabled: always); and that nothing is said where it is not. The kernel
// tells of each mapping what was asked for: "nh" or "hg" among the VmFlags of /proc/self/smaps. Each test is in a
// process of its own, for which that file says what the test wants (a mount of its own over it, which needs a user
// namespace or rights).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "stress_test.h"

namespace freeway::test {
namespace {

// What the mapping that the address lies in was asked for: "nh" small pages, "hg" huge ones, "" nothing.
std::string advice_for(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream(line) >> std::hex >> begin >> dash >> end && dash == '-')
      here = begin <= wanted && wanted < end;
    else if (here && line.starts_with("VmFlags:"))
      return line.find(" nh") != std::string::npos ? "nh" : line.find(" hg") != std::string::npos ? "hg" : "";
  }
  ADD_FAILURE() << address << " lies in no mapping";
  return "?";
}
bool has_small_pages(const void* address) { return advice_for(address) == "nh"; }

constexpr const char* kDefault = "/sys/kernel/mm/transparent_hugepage/enabled";
constexpr const char* kPretended = "FREEWAY_TEST_PRETENDED_DEFAULT";
constexpr int kCannot = 77;

// Becomes this program anew, with tests of this name only, in a process for which the default is `text`, and
// FREEWAY_HUGE `wish`.
[[noreturn]] void become(const std::string& tests, const char* text, const char* wish) {
  char file[] = "/tmp/freeway_default_XXXXXX";
  const int fd = mkstemp(file);
  const bool written = fd >= 0 && write(fd, text, strlen(text)) > 0;
  if (!written || (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)) _exit(kCannot);
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(kCannot);
  if (mount(file, kDefault, nullptr, MS_BIND, nullptr) != 0) _exit(kCannot);
  unlink(file);
  setenv(kPretended, text, 1);
  setenv("FREEWAY_HUGE", wish, 1);
  const std::string filter = "--gtest_filter=" + tests + ".*";
  execl("/proc/self/exe", "huge_pages_test", filter.c_str(), nullptr);
  _exit(kCannot);
}

void pass_where_the_default_is(const char* text, const std::string& tests, const char* wish = "default") {
  const pid_t child = fork();
  if (child == 0) become(tests, text, wish);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannot) GTEST_SKIP() << "no mounts of one's own here";
  EXPECT_EQ(status, 0);
}

TEST(SmallPages, AreAskedForWhereHugeOnesAreTheDefault) {
  pass_where_the_default_is("[always] madvise never\n", "InProcessWithHugePages");
}
TEST(SmallPages, AreNotAskedForElsewhere) {
  pass_where_the_default_is("always [madvise] never\n", "InProcessWithSmallPages");
}

TEST(HugePages, AreAskedForAllBlocksByWish) {
  pass_where_the_default_is("always [madvise] never\n", "InProcessThatWantsThem", "always");
}
TEST(HugePages, AreForbiddenForAllBlocksByWish) {
  pass_where_the_default_is("always [madvise] never\n", "InProcessThatForbidsThem", "never");
}
TEST(HugePages, AreTriedWhereTheyComeOnRequest) {
  pass_where_the_default_is("always [madvise] never\n", "InProcessThatTriesThem");
}

// Tests of the processes that the above start.
class InProcess : public testing::Test {
 protected:
  void SetUp() override {
    if (getenv(kPretended) == nullptr) GTEST_SKIP() << "in a process of its own, above";
    void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (madvise(page, 4096, MADV_NOHUGEPAGE) != 0) GTEST_SKIP() << "a kernel without transparent huge pages";
    munmap(page, 4096);
  }
};

struct InProcessWithHugePages : InProcess {};
struct InProcessWithSmallPages : InProcess {};
struct InProcessThatWantsThem : InProcess {};
struct InProcessThatForbidsThem : InProcess {};
struct InProcessThatTriesThem : InProcess {};

void expect_advice_for_all_blocks(const char* advice) {
  for (const size_t bytes : {size_t{16}, kKiB, 20 * kKiB, 3 * kMiB, 100 * kMiB, 300 * kMiB}) {
    auto* block = static_cast<unsigned char*>(hide(malloc(bytes)));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(advice_for(block), advice) << bytes;
    EXPECT_EQ(advice_for(block + bytes - 1), advice) << bytes;
    free(block);
  }
}

TEST_F(InProcessWithHugePages, ASmallHeapDoesWithSmallPages) {
  for (const size_t bytes : {size_t{16}, kKiB, 20 * kKiB, 3 * kMiB, 20 * kMiB}) {
    auto* block = static_cast<unsigned char*>(hide(malloc(bytes)));
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(has_small_pages(block)) << bytes;
    EXPECT_TRUE(has_small_pages(block + bytes - 1)) << bytes;
    free(block);
  }
}

TEST_F(InProcessWithHugePages, ALargeHeapMayHaveThem) {
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

TEST_F(InProcessWithSmallPages, NoMappingIsSplitForNothing) {
  for (const size_t bytes : {size_t{16}, 3 * kMiB, 100 * kMiB}) {
    auto* block = static_cast<unsigned char*>(hide(malloc(bytes)));
    ASSERT_NE(block, nullptr);
    EXPECT_FALSE(has_small_pages(block)) << bytes;
    free(block);
  }
}

TEST_F(InProcessThatWantsThem, AllBlocksMayHaveThem) { expect_advice_for_all_blocks("hg"); }
TEST_F(InProcessThatForbidsThem, NoBlockMayHaveThem) { expect_advice_for_all_blocks("nh"); }

TEST_F(InProcessThatTriesThem, TheHeapTakesHardlyMoreMemoryThanItsBlocks) {
  static unsigned char* blocks[320 * kMiB / (16 * kKiB)];
  const size_t before = anonymous_rss();
  for (auto& block : blocks) memset(block = static_cast<unsigned char*>(hide(malloc(16 * kKiB))), 1, 16 * kKiB);
  EXPECT_LE(anonymous_rss() - before, sizeof blocks / sizeof *blocks * 16 * kKiB + 4 * kMiB);
  // One block each 2 MiB. Where huge pages come slowly, only one or two pieces right behind the first 256 MiB are tried.
  int tried_early = 0, tried = 0;
  for (size_t i = 0; i < std::size(blocks); i += 2 * kMiB / (16 * kKiB)) {
    if (advice_for(blocks[i]) == "nh") ++(i * 16 * kKiB < 250 * kMiB ? tried_early : tried);
  }
  EXPECT_EQ(tried_early, 0) << "the first 256 MiB are as the system has them";
  EXPECT_GE(tried, 1) << "what was tried does with small pages later; how much that is depends on how fast they came";
  for (auto& block : blocks) EXPECT_EQ(block[16 * kKiB - 1], 1);
}

}  // namespace
}  // namespace freeway::test
