// SPDX-License-Identifier: MIT
//
// A kernel, or a file system, that says no to memory's coming and going: what a heap says that it has it has, and what
// it says that it gave back is gone.
#include <csetjmp>

#include "shared/tests/filter.h"
#include "shared/tests/shared_file.h"

namespace {
using namespace freeway_test;

constexpr int kNoFilters = 77;
constexpr size_t kLarge = 262'144;  // four frames: what the system is asked for at once

// Frames without blocks, and with memory; then trim, of which the kernel says so. The status: 0, or what was wrong.
int trim_refused(int error) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  void* large = ::freeway_shared_malloc(heap, kLarge);
  ::memset(large, 0x5a, kLarge);
  if (large == nullptr || ::freeway_shared_free(heap, large) != 0 || stats_of(heap).backed != kLarge) return 1;
  if (!answer_madvise(kRemove, refuse_with(error))) return kNoFilters;
  if (::freeway_shared_trim(heap) != 0) return 2;  // nothing went back
  if (stats_of(heap).backed != kLarge) return 3;
  const auto* zeroed = static_cast<unsigned char*>(::freeway_shared_calloc(heap, 1, kLarge));
  if (zeroed == nullptr || stats_of(heap).backed != kLarge) return 4;
  for (size_t i = 0; i < kLarge; i++)
    if (zeroed[i] != 0) return 5;
  return ::freeway_shared_audit(heap, nullptr, 0) == 0 ? 0 : 6;
}

class SharedRefused : public testing::TestWithParam<int> {};
// Where it cannot be done, the memory is there as before. After any other failure some may be gone.
INSTANTIATE_TEST_SUITE_P(Errors, SharedRefused, testing::Values(EINVAL, EOPNOTSUPP, EINTR, EIO));

TEST_P(SharedRefused, FramesHaveMemoryOnlyIfItIsCertain) {
  const int status = in_child([] { return trim_refused(GetParam()); });
  if (status == kNoFilters) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(status, 0);
}

TEST_P(SharedRefused, WhatCouldNotGoGoesTheNextTime) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  ASSERT_TRUE(fill_tables(fd));
  const int status = in_child([&] {
    void* large = ::freeway_shared_malloc(heap, kLarge);
    if (large == nullptr || ::freeway_shared_free(heap, large) != 0) return 1;
    if (!answer_madvise(kRemove, refuse_with(GetParam()))) return kNoFilters;
    return ::freeway_shared_trim(heap) == 0 ? 0 : 2;
  });
  if (status == kNoFilters) GTEST_SKIP() << "no seccomp filters here";
  ASSERT_EQ(status, 0);
  EXPECT_EQ(stats_of(heap).backed, kLarge);
  EXPECT_EQ(::freeway_shared_trim(heap), kLarge);
  EXPECT_EQ(stats_of(heap).backed, 0u);
  EXPECT_EQ(forgotten(fd, heap), 0u);
}

sigjmp_buf out_of_the_call;
int calls_left;

// A thread that leaves its calls for ever, and a file that says each time that all seats but one are free: calls have
// taken all places that a process has for seats, and there are some seats still.
int leave_calls_for_ever() {
  constexpr int kPlaces = 256;  // of shared/seat_pool.h
  constexpr off_t kHeader = 104;
  char words[6200];  // of the header, those that change
  const File fd = memory_file();
  const Heap heap = make_heap(fd, size_t{128} << 20, 2);
  if (::pread(fd, words, sizeof(words), kHeader) != sizeof(words)) return 1;
  struct sigaction action = {};
  action.sa_handler = [](int) { siglongjmp(out_of_the_call, 1); };
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return 2;
  if (!answer_madvise(kPopulateWrite, SECCOMP_RET_TRAP, kLarge)) return kNoFilters;
  for (; calls_left <= kPlaces; calls_left++) {
    if (::pwrite(fd, words, sizeof(words), kHeader) != sizeof(words)) return 3;
    if (sigsetjmp(out_of_the_call, 1) != 0) continue;
    const void* block = ::freeway_shared_malloc(heap, kLarge);
    return block == nullptr && errno == EAGAIN && calls_left == kPlaces ? 0 : 4;
  }
  return 5;
}

TEST(SharedRefusedSeats, NoPlaceForOneMoreIsAnError) {
  const int status = in_child(leave_calls_for_ever);
  if (status == kNoFilters) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(status, 0);
}

}  // namespace
