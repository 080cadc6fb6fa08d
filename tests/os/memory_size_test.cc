// SPDX-License-Identifier: MIT
//
// Tests of os/memory_size.h: amounts as they are written, and what a tree of cgroup files, made in a folder that stands
// in for the root directory, leaves to a process.
#include "os/memory_size.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace freeway::test {
namespace {

constexpr u64 kWhole = 1000 * kMiB;
u64 whole() { return kWhole; }
u64 never() {
  ADD_FAILURE() << "asked for the memory of the machine";
  return 0;
}

u64 amount(const std::string& text, const std::string& rest = "") {
  u64 bytes = 12345;
  const char* end = parse_memory_size(text.c_str(), whole, &bytes);
  if (end == nullptr) return ~u64{0};
  EXPECT_EQ(std::string(end), rest) << text;
  return bytes;
}

TEST(MemorySize, BytesAndPowersOf1024) {
  EXPECT_EQ(amount("0"), 0u);
  EXPECT_EQ(amount("1073741824"), kGiB);
  EXPECT_EQ(amount("64k"), 64 * kKiB);
  EXPECT_EQ(amount("900m"), 900 * kMiB);
  EXPECT_EQ(amount("2G"), 2 * kGiB);
  EXPECT_EQ(amount("3t"), 3072 * kGiB);
  EXPECT_EQ(amount("18446744073709551615"), ~u64{0});
  EXPECT_EQ(amount("16383t"), u64{16383} << 40);
  EXPECT_EQ(amount("5mb", "b"), 5 * kMiB);
  EXPECT_EQ(amount("5,6", ",6"), 5u);
}

TEST(MemorySize, PartsOfTheWhole) {
  EXPECT_EQ(amount("90%"), 900 * kMiB);
  EXPECT_EQ(amount("100%"), kWhole);
  EXPECT_EQ(amount("0%"), 0u);
  EXPECT_EQ(amount("1%"), 10 * kMiB);
}

TEST(MemorySize, WhatIsNoAmount) {
  for (const char* text : {"", "m", "-1", "+1", " 1", "x", "18446744073709551616", "16777216t", "101%", "%"})
    EXPECT_EQ(amount(text), ~u64{0}) << text;
}

TEST(MemoryLimits, SoftAndHard) {
  const auto parsed = [](const char* text, u64 (*all)() = never) {
    MemoryLimits limits{1, 1};
    EXPECT_TRUE(parse_memory_limits(text, all, &limits)) << text;
    return std::pair(limits.soft, limits.hard);
  };
  EXPECT_EQ(parsed("900m"), std::pair(900 * kMiB, u64{0}));
  EXPECT_EQ(parsed("900m,1g"), std::pair(900 * kMiB, u64{kGiB}));
  EXPECT_EQ(parsed(",1g"), std::pair(u64{0}, u64{kGiB}));
  EXPECT_EQ(parsed("0,0"), std::pair(u64{0}, u64{0}));
  EXPECT_EQ(parsed("64k,64k"), std::pair(64 * kKiB, 64 * kKiB));
  EXPECT_EQ(parsed("80%,90%", whole), std::pair(800 * kMiB, 900 * kMiB));
}

TEST(MemoryLimits, WhatIsNone) {
  for (const char* text : {"", ",", "1g,", "1g,900m", "100", "1g,100", "1g;2g", "1g,2g,3g", "1gb", "much", "101%"}) {
    MemoryLimits limits{7, 8};
    EXPECT_FALSE(parse_memory_limits(text, whole, &limits)) << text;
    EXPECT_TRUE(limits.soft == 7 && limits.hard == 8) << text << " changed them";
  }
}

// A root directory of its own.
class Root {
 public:
  Root() {
    char name[] = "/tmp/freeway-root-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Root() { std::filesystem::remove_all(path_); }
  Root(const Root&) = delete;
  Root& file(const std::string& name, const std::string& text) {
    const std::filesystem::path path = path_ + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return *this;
  }
  u64 memory(u64 machine = kWhole) const { return process_memory_under(path_.c_str(), machine); }

 private:
  std::string path_;
};

TEST(ProcessMemory, TheLeastOfAllGroupsAbove) {
  for (const u64 least : {100, 200, 300}) {
    Root root;
    const auto of = [&](u64 mine) { return std::to_string(mine == least ? least * kMiB / 2 : mine * kMiB) + "\n"; };
    root.file("/proc/self/cgroup", "0::/a/b/c\n");
    root.file("/sys/fs/cgroup/a/memory.max", of(100)).file("/sys/fs/cgroup/a/b/memory.max", of(200));
    root.file("/sys/fs/cgroup/a/b/c/memory.max", of(300));
    EXPECT_EQ(root.memory(), (least == 100 ? 50 : 100) * kMiB);
    root.file("/sys/fs/cgroup/a/memory.max", "max\n").file("/sys/fs/cgroup/a/b/memory.max", "max\n");
    EXPECT_EQ(root.memory(), (least == 300 ? 150 : 300) * kMiB);
    root.file("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
    EXPECT_EQ(root.memory(), kWhole);
  }
}

// In a container the group's path may be the host's, and the files those of the container.
TEST(ProcessMemory, GroupsWhoseFilesAreNotThereLimitNothing) {
  Root root;
  EXPECT_EQ(root.memory(), kWhole) << "not even /proc";
  root.file("/proc/self/cgroup", "0::/docker/0123456789abcdef\n");
  EXPECT_EQ(root.memory(), kWhole);
  root.file("/sys/fs/cgroup/memory.max", "52428800\n");
  EXPECT_EQ(root.memory(), 50 * kMiB) << "of the container";
}

TEST(ProcessMemory, TheRootGroupAlone) {
  Root root;
  root.file("/proc/self/cgroup", "0::/\n").file("/sys/fs/cgroup/memory.max", "1048576");
  EXPECT_EQ(root.memory(), kMiB);
}

TEST(ProcessMemory, VersionOneAmongItsControllers) {
  Root root;
  root.file("/proc/self/cgroup",
            "12:blkio:/x\n11:cpu,memory,pids:/slice/box\n3:memoryless:/y\n1:name=systemd:/\n0::/unified\n");
  root.file("/sys/fs/cgroup/memory/slice/box/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(root.memory(), kWhole);
  root.file("/sys/fs/cgroup/memory/slice/memory.limit_in_bytes", "73400320\n");
  EXPECT_EQ(root.memory(), 70 * kMiB);
  root.file("/sys/fs/cgroup/unified/memory.max", "10485760\n");
  EXPECT_EQ(root.memory(), 10 * kMiB) << "and version two beside it";
}

TEST(ProcessMemory, LongAndStrangePathsDoNoHarm) {
  Root root;
  const std::string deep = "/" + std::string(200, 'a') + "/" + std::string(200, 'b') + "/" + std::string(200, 'c');
  root.file("/proc/self/cgroup", "0::" + deep + "\n").file("/sys/fs/cgroup" + deep + "/memory.max", "2097152");
  EXPECT_EQ(root.memory(), 2 * kMiB);
  root.file("/sys/fs/cgroup/memory.max", "1048576");
  root.file("/proc/self/cgroup", "0::" + deep + deep + deep + "\n");
  EXPECT_EQ(root.memory(), kMiB) << "too long a path: what lies above it counts";
  root.file("/proc/self/cgroup", "0::/../..//\n");
  EXPECT_EQ(root.memory(), kMiB);
  root.file("/proc/self/cgroup", "no colon\n:\n::\n0:\n\n");
  EXPECT_LE(root.memory(), kWhole);
}

TEST(ProcessMemory, OfThisProcessIsThatOfTheMachineAtMost) {
  EXPECT_GT(process_memory(), u64{0});
  EXPECT_LE(process_memory(), machine_memory());
}

// Without ThreadSanitizer's pages beside it.
__attribute__((no_sanitize("thread"))) void touch(void* memory, std::size_t bytes, std::size_t page) {
  for (std::size_t at = 0; at < bytes; at += page) static_cast<volatile char*>(memory)[at] = 1;
}

TEST(ResidentPages, GrowByWhatIsTouched) {
  constexpr std::size_t kBytes = 64 * kMiB;
  const auto page = static_cast<u64>(sysconf(_SC_PAGESIZE));
  const u64 before = resident_pages() * page;
  EXPECT_GT(before, u64{0});
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  touch(memory, kBytes, page);
  const u64 during = resident_pages() * page;
  munmap(memory, kBytes);
  EXPECT_GE(during, before + kBytes * 7 / 8) << "the kernel's counts may lag behind";
  EXPECT_LE(during, before + kBytes * 9 / 8);
}

}  // namespace
}  // namespace freeway::test
