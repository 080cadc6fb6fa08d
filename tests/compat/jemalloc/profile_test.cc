// SPDX-License-Identifier: MIT
//
// prof.*: sampling on and off, files with and without names, and beginning anew.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "control.h"

namespace {

namespace fs = std::filesystem;

// A folder of its own as the current one.
class Profile : public testing::Test {
 protected:
  Profile() {
    std::string name = (fs::temp_directory_path() / "profile.XXXXXX").native();
    folder_ = mkdtemp(name.data());
    fs::current_path(folder_);
  }
  ~Profile() override {
    EXPECT_EQ(set("prof.active", false), 0);
    fs::current_path("/");
    fs::remove_all(folder_);
  }

  fs::path folder_;
};

int dump(const char* path) { return set("prof.dump", path); }

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

// The bytes in use that the head of a profile tells, and its interval.
struct Head {
  explicit Head(const std::string& text) {
    unsigned long blocks = 0;
    constexpr const char* kHead = "heap profile: %lu: %lu [%*u: %*u] @ heap_v2/%lu";
    EXPECT_EQ(std::sscanf(text.c_str(), kHead, &blocks, &bytes, &interval), 3) << text;
  }
  unsigned long bytes = 0, interval = 0;
};

TEST_F(Profile, HasWhatIsLiveWhileItIsActive) {
  EXPECT_FALSE(value_of<bool>("prof.active"));
  ASSERT_EQ(set<std::size_t>("prof.reset", 14), 0);
  EXPECT_EQ(value_of<std::size_t>("prof.lg_sample"), 14u);
  EXPECT_EQ(set("prof.active", true), 0);
  EXPECT_TRUE(value_of<bool>("prof.active"));
  std::vector<void*> blocks(2000);
  for (void*& block : blocks) block = malloc(10000);
  ASSERT_EQ(dump("mine.heap"), 0);
  const Head head(contents("mine.heap"));
  EXPECT_GE(head.interval, 1u << 14);
  EXPECT_LE(head.interval, (1u << 14) + (1u << 8));
  EXPECT_GT(head.bytes, 1u << 20);
  for (void* block : blocks) free(block);
}

TEST_F(Profile, BeginsAnewWhenItIsReset) {
  for (const bool active : {true, false}) {
    ASSERT_EQ(set<std::size_t>("prof.reset", 12), 0);
    ASSERT_EQ(set("prof.active", true), 0);
    std::vector<void*> blocks(1000);
    for (void*& block : blocks) block = malloc(10000);
    ASSERT_EQ(set("prof.active", active), 0);
    ASSERT_EQ(dump("before.heap"), 0);
    EXPECT_GT(Head(contents("before.heap")).bytes, 1u << 20);
    ASSERT_EQ(act("prof.reset"), 0);
    EXPECT_EQ(value_of<bool>("prof.active"), active);
    EXPECT_EQ(value_of<std::size_t>("prof.lg_sample"), 12u);
    ASSERT_EQ(dump("after.heap"), 0);
    const Head after(contents("after.heap"));
    EXPECT_LT(after.bytes, 1u << 20) << "active: " << active;
    EXPECT_GE(after.interval, 1u << 12);
    EXPECT_LE(after.interval, (1u << 12) + (1u << 6));
    for (void* block : blocks) free(block);
    ASSERT_EQ(set("prof.active", false), 0);
  }
}

TEST_F(Profile, WithEveryBlockCanBeginOnce) {
  EXPECT_EQ(set<std::size_t>("prof.reset", 0), 0);
  EXPECT_EQ(value_of<std::size_t>("prof.lg_sample"), 0u);
  EXPECT_EQ(act("prof.reset"), EFAULT) << "what was sampled would stay";
  EXPECT_EQ(set<std::size_t>("prof.reset", 100), 0) << "as jemalloc: the most there is";
  EXPECT_EQ(value_of<std::size_t>("prof.lg_sample"), 61u);
}

TEST_F(Profile, SamplesNothingWhenItIsNotActive) {
  ASSERT_EQ(set<std::size_t>("prof.reset", 12), 0);
  std::vector<void*> blocks(1000);
  for (void*& block : blocks) block = malloc(10000);
  ASSERT_EQ(dump("nothing.heap"), 0);
  EXPECT_EQ(Head(contents("nothing.heap")).bytes, 0u);
  for (void* block : blocks) free(block);
}

TEST_F(Profile, NamesItsFilesInOrder) {
  EXPECT_EQ(act("prof.dump"), 0);
  EXPECT_EQ(act("prof.dump"), 0);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
  ASSERT_EQ(names.size(), 2u);
  const std::string prefix =
      std::string(value_of<const char*>("opt.prof_prefix")) + "." + std::to_string(getpid()) + ".";
  for (const std::string& name : names) {
    EXPECT_TRUE(name.starts_with(prefix)) << name;
    EXPECT_TRUE(name.ends_with(".heap")) << name;
    EXPECT_TRUE(contents(name).starts_with("heap profile: ")) << name;
  }
  EXPECT_NE(names[0], names[1]);
}

TEST_F(Profile, SaysWhenItCannotBeWritten) {
  EXPECT_EQ(dump("no/such/folder.heap"), EFAULT);
  EXPECT_EQ(dump("/dev/full"), EFAULT);
  EXPECT_EQ(set<char>("prof.dump", 'x'), EINVAL);
  const char* path = nullptr;
  std::size_t size = sizeof path;
  EXPECT_EQ(mallctl("prof.dump", &path, &size, nullptr, 0), EPERM);
  EXPECT_EQ(mallctl("prof.reset", &path, &size, nullptr, 0), EPERM);
  EXPECT_EQ(set<unsigned>("prof.reset", 12), EINVAL);
  EXPECT_EQ(set<int>("prof.active", 1), EINVAL);
}

}  // namespace
