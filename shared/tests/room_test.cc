// SPDX-License-Identifier: MIT
//
// No room: a tmpfs that is full, a limit on files' lengths, a heap that is used up. Calls say ENOMEM, what was given
// out can be written to, and no process is killed by SIGBUS.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "shared/tests/shared_file.h"
#include "shared/tests/use_up.h"

namespace {
using namespace freeway_test;

constexpr int kNoRights = 77;

// Namespaces of one's own, in which one has rights: files are made by whom the kernel has a number of there.
bool have_namespaces_of_own() {
  const std::string user = std::to_string(::getuid()), group = std::to_string(::getgid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user + " " + user + " 1";
  std::ofstream("/proc/self/gid_map") << group + " " + group + " 1";
  return true;
}

// In a child that has a small tmpfs for itself; kNoRights where that is not allowed.
template <class F> int on_small_tmpfs(F&& f) {
  return in_child([&] {
    char folder[] = "/tmp/freeway-small-XXXXXX";
    if ((::unshare(CLONE_NEWNS) != 0 && !have_namespaces_of_own()) || ::mkdtemp(folder) == nullptr) return kNoRights;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("small", folder, "tmpfs", 0, "size=3m") != 0) {
      ::rmdir(folder);
      return kNoRights;
    }
    const int result = f(folder);
    ::umount2(folder, MNT_DETACH);
    ::rmdir(folder);
    return result;
  });
}

TEST(SharedRoom, AFullTmpfsIsNoMemory) {
  const int status = on_small_tmpfs([](const char* folder) {
    const File fd = file_in(folder);
    const Heap heap = make_heap(fd, size_t{1} << 30);  // far more than there is
    if (heap == nullptr) return 1;
    if (const int failure = use_up_twice(heap); failure != 0) return failure;
    // Full to the last page while there are holes: what is a hole is not touched.
    fill_up(folder);
    std::vector<void*> blocks;
    if (const int failure = use_up(heap, blocks); failure != 0) return failure;
    for (void* block : blocks)
      if (::freeway_shared_free(heap, block) != 0) return 2;
    if (::freeway_shared_recover(heap) != 0 || ::freeway_shared_audit(heap, nullptr, 0) != 0) return 3;
    freeway_shared_stats_t stats;
    if (::freeway_shared_stats(heap, &stats, sizeof(stats)) != 0) return 4;
    return 0;
  });
  if (status == kNoRights) GTEST_SKIP() << "may not mount a tmpfs";
  EXPECT_EQ(status, 0);
}

TEST(SharedRoom, MakingAHeapWhereThereIsNone) {
  const int status = on_small_tmpfs([](const char* folder) {
    const File fd = file_in(folder);
    fill_up(folder);
    if (make_heap(fd) != nullptr || (errno != ENOSPC && errno != ENOMEM)) return 1;
    ::unlink((std::string(folder) + "/rest").c_str());
    return make_heap(fd) != nullptr ? 0 : 2;
  });
  if (status == kNoRights) GTEST_SKIP() << "may not mount a tmpfs";
  EXPECT_EQ(status, 0);
}

TEST(SharedRoom, AHeapThatIsUsedUp) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd, size_t{8} << 20);
  EXPECT_EQ(use_up_twice(heap), 0);
}

TEST(SharedRoom, WhatTheDeadHaveInTheirMagazinesIsFoundWhenItIsNeeded) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd, size_t{2} << 20, 30);
  for (int round = 0; round < 20; round++) {
    const auto die = [&] {
      for (size_t bytes = 16; bytes <= 2048; bytes *= 2) {
        void* block = ::freeway_shared_malloc(heap, bytes);
        if (block == nullptr || ::freeway_shared_free(heap, block) != 0) return 1;
      }
      ::kill(::getpid(), SIGKILL);
      return 2;
    };
    ASSERT_EQ(in_child(die), kKilled) << round;  // without recovery: nearly all frames would be theirs
  }
  EXPECT_NE(::freeway_shared_malloc(heap, size_t{1} << 20), nullptr);
}

TEST(SharedRoom, ALimitOnTheLengthOfFilesIsAnErrorAndNoSignal) {
  for (const rlim_t bytes : {0, 100'000}) {
    const auto make = [bytes] {
      const rlimit limit = {bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      const File fd = memory_file();
      return make_heap(fd) == nullptr && errno == EFBIG ? 0 : 1;
    };
    EXPECT_EQ(in_child(make), 0) << bytes;
  }
}

}  // namespace
