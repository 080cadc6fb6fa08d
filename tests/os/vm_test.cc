// SPDX-License-Identifier: MIT
//
// Tests of os/vm.h: what is promised of the kernel's memory calls, tried on the real kernel, refusals included.
#include "os/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

namespace freeway::test {
namespace {

constexpr std::size_t kUnit = 64 * kKiB;

// Whether a byte can be read, without touching it.
bool is_readable(uptr address) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const bool readable = write(ends[1], reinterpret_cast<const void*>(address), 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

u64* word(uptr address) { return reinterpret_cast<u64*>(address); }

// Pages of address space that the process has.
// Read without malloc, whose heap might grow meanwhile.
std::size_t address_space() {
  char text[64] = {};
  const int fd = open("/proc/self/statm", O_RDONLY);
  EXPECT_GT(read(fd, text, sizeof(text) - 1), 0);
  close(fd);
  return std::strtoull(text, nullptr, 10) * vm::page_size();
}

class VmTest : public testing::Test {
 protected:
  void SetUp() override { errno = EDOM; }
  void TearDown() override { EXPECT_EQ(errno, EDOM) << "errno is kept by all of them"; }

  // Looks without leaving a mark.
  static bool readable(uptr address) {
    const int before = errno;
    const bool answer = is_readable(address);
    errno = before;
    return answer;
  }
};

TEST_F(VmTest, ThePageSizeIsTheKernels) { EXPECT_EQ(vm::page_size(), static_cast<std::size_t>(sysconf(_SC_PAGESIZE))); }

TEST_F(VmTest, ReservedAddressSpaceIsAlignedAndCannotBeTouched) {
  for (std::size_t alignment = kUnit; alignment <= kGiB; alignment *= 4)
    for (std::size_t bytes : {kUnit, 3 * kUnit, 64 * kMiB}) {
      const std::size_t before = address_space();
      const uptr address = vm::reserve(bytes, alignment);
      ASSERT_NE(address, 0u);
      EXPECT_EQ(address % alignment, 0u);
      EXPECT_FALSE(readable(address));
      EXPECT_FALSE(readable(address + bytes - 1));
      EXPECT_TRUE(FREEWAY_EMULATED || address_space() == before + bytes) << "what alignment needed was given back";
      EXPECT_TRUE(vm::release(address, bytes));
      EXPECT_TRUE(FREEWAY_EMULATED || address_space() == before);
    }
}

TEST_F(VmTest, MappedMemoryIsAlignedZeroAndWritable) {
  for (std::size_t alignment = kUnit; alignment <= kGiB; alignment *= 16) {
    const uptr address = vm::map(4 * kUnit, alignment);
    ASSERT_NE(address, 0u);
    EXPECT_EQ(address % alignment, 0u);
    for (uptr at = address; at < address + 4 * kUnit; at += 8) ASSERT_EQ(*word(at), 0u);
    *word(address + 4 * kUnit - 8) = 1;
    EXPECT_TRUE(vm::release(address, 4 * kUnit));
  }
}

TEST_F(VmTest, SmallMappingsGoDownwardsAndAPlaceThatIsFreeAgainIsFoundAgain) {
  const uptr first = vm::map(4 * kUnit, kUnit), second = vm::map(kUnit, kUnit);
  ASSERT_TRUE(first != 0 && second != 0);
  EXPECT_EQ(second + kUnit, first);
  EXPECT_TRUE(vm::release(first, 4 * kUnit));
  EXPECT_EQ(vm::map(4 * kUnit, kUnit), first);
  EXPECT_TRUE(vm::release(second, kUnit));
  EXPECT_TRUE(vm::release(first, 4 * kUnit));
}

TEST_F(VmTest, CommittedMemoryIsZeroAndCommittingAgainChangesNothing) {
  const uptr address = vm::reserve(4 * kUnit, kUnit);
  ASSERT_TRUE(vm::commit(address, 2 * kUnit));
  EXPECT_EQ(*word(address), 0u);
  *word(address) = 7;
  ASSERT_TRUE(vm::commit(address, 3 * kUnit));
  EXPECT_EQ(*word(address), 7u);
  *word(address + 2 * kUnit) = 8;
  EXPECT_FALSE(readable(address + 3 * kUnit));
  EXPECT_TRUE(vm::release(address, 4 * kUnit));
}

TEST_F(VmTest, PurgedMemoryIsZeroAndItsNeighboursAreNot) {
  const std::size_t page = vm::page_size();
  const uptr address = vm::map(kUnit * 2, kUnit);
  for (uptr at = address; at < address + 2 * kUnit; at += page) *word(at) = 9;
  EXPECT_EQ(vm::resident(address, 2 * kUnit), 2 * kUnit);
  ASSERT_TRUE(vm::purge(address + page, kUnit));
  EXPECT_EQ(vm::resident(address, 2 * kUnit), kUnit);
  EXPECT_EQ(*word(address), 9u);
  for (uptr at = address + page; at < address + page + kUnit; at += page) EXPECT_EQ(*word(at), 0u);
  EXPECT_EQ(*word(address + page + kUnit), 9u);
  EXPECT_TRUE(vm::release(address, 2 * kUnit));
}

// By the bare system call: the sanitizers' mlock locks nothing.
bool lock(uptr address, std::size_t bytes) { return syscall(SYS_mlock, address, bytes) == 0; }

// Whether the kernel has MADV_DONTNEED_LOCKED.
bool gives_locked_memory_back() {
  utsname name;
  int major = 0, minor = 0;
  return uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
         (major > 5 || (major == 5 && minor >= 18));
}

TEST_F(VmTest, LockedMemoryIsGivenBackToo) {
  if (FREEWAY_EMULATED || !gives_locked_memory_back()) GTEST_SKIP() << "since Linux 5.18";
  const std::size_t page = vm::page_size();
  const uptr address = vm::map(8 * kUnit, kUnit);
  ASSERT_TRUE(lock(address, 8 * kUnit));
  for (uptr at = address; at < address + 8 * kUnit; at += page) *word(at) = 9;
  ASSERT_TRUE(vm::purge(address + kUnit, 6 * kUnit));
  EXPECT_EQ(vm::resident(address, 8 * kUnit), 2 * kUnit);
  for (uptr at = address + kUnit; at < address + 7 * kUnit; at += page) EXPECT_EQ(*word(at), 0u);
  EXPECT_EQ(*word(address), 9u);
  EXPECT_EQ(*word(address + 7 * kUnit), 9u);
  EXPECT_TRUE(vm::release(address, 8 * kUnit));
}

TEST_F(VmTest, ResidentCountsWhatWasTouchedInLongRangesToo) {
  const std::size_t page = vm::page_size(), bytes = 1000 * page;
  const std::size_t rounded = align_up(bytes, kUnit);
  const uptr address = vm::map(rounded, kUnit);
  EXPECT_EQ(vm::resident(address, rounded), 0u);
  std::size_t touched = 0;
  for (std::size_t p = 0; p < 1000; p += 37, ++touched) *word(address + p * page) = 1;
  const std::size_t backed = vm::resident(address, rounded);
  EXPECT_GE(backed, touched * page);
  EXPECT_EQ(backed % page, 0u);
  EXPECT_EQ(vm::resident(address + page, 36 * page) <= 36 * page, true);
  EXPECT_TRUE(vm::release(address, rounded));
}

TEST_F(VmTest, ReleasedMemoryIsGone) {
  const uptr address = vm::map(kUnit, kUnit);
  EXPECT_TRUE(readable(address));
  EXPECT_TRUE(vm::release(address, kUnit));
  EXPECT_FALSE(readable(address));
}

TEST_F(VmTest, AMoveTakesTheContentsAndLeavesNothing) {
  for (std::size_t bytes : {2 * kUnit, 4 * kUnit, 6 * kUnit}) {  // smaller, the same, larger
    const uptr from = vm::map(4 * kUnit, kUnit), to = vm::reserve(bytes, kUnit);
    *word(from) = 5;
    *word(from + kUnit) = 6;
    ASSERT_TRUE(vm::move(from, 4 * kUnit, to, bytes));
    EXPECT_EQ(*word(to), 5u);
    EXPECT_EQ(*word(to + kUnit), 6u);
    *word(to + bytes - 8) = 1;
    EXPECT_FALSE(readable(from));
    EXPECT_TRUE(vm::release(to, bytes));
  }
}

TEST_F(VmTest, WhatIsMovedOutOfAMappingLeavesZerosAndNoHole) {
  if (FREEWAY_EMULATED) GTEST_SKIP() << "nothing is moved here";
  const uptr area = vm::map(6 * kUnit, kUnit), to = vm::reserve(2 * kUnit, kUnit);
  for (uptr at = area; at < area + 6 * kUnit; at += kUnit) *word(at) = at;
  if (!vm::move_out(area + 2 * kUnit, 2 * kUnit, to)) GTEST_SKIP() << "since Linux 5.7";
  EXPECT_EQ(*word(to), area + 2 * kUnit);
  EXPECT_EQ(*word(to + kUnit), area + 3 * kUnit);
  EXPECT_EQ(vm::resident(area + 2 * kUnit, 2 * kUnit), 0u);
  for (uptr at = area; at < area + 6 * kUnit; at += kUnit)
    EXPECT_EQ(*word(at), at < area + 2 * kUnit || at >= area + 4 * kUnit ? at : 0);
  EXPECT_TRUE(vm::release(to, 2 * kUnit));
  EXPECT_TRUE(vm::release(area, 6 * kUnit));
}

// The kernel would unlock the whole mapping.
TEST_F(VmTest, LockedMemoryIsNotMovedOut) {
  if (FREEWAY_EMULATED) GTEST_SKIP() << "nothing is locked here";
  const uptr area = vm::map(4 * kUnit, kUnit), to = vm::reserve(kUnit, kUnit);
  ASSERT_TRUE(lock(area, 4 * kUnit));
  *word(area) = 5;
  EXPECT_FALSE(vm::move_out(area, kUnit, to));
  EXPECT_FALSE(readable(to));
  EXPECT_EQ(*word(area), 5u);
  EXPECT_TRUE(vm::release(area, 4 * kUnit));
}

TEST_F(VmTest, AMoveOfNothingFailsAndChangesNothing) {
  const uptr hole = vm::reserve(kUnit, kUnit), to = vm::reserve(kUnit, kUnit);
  ASSERT_TRUE(vm::release(hole, kUnit));
  EXPECT_FALSE(vm::move(hole, kUnit, to, kUnit));
  EXPECT_FALSE(vm::resize(hole, kUnit, 2 * kUnit));
  EXPECT_FALSE(vm::move_out(hole, kUnit, vm::reserve(kUnit, kUnit)));
  EXPECT_FALSE(vm::commit(hole, kUnit));
  EXPECT_TRUE(FREEWAY_EMULATED || !vm::purge(hole, kUnit));
  EXPECT_TRUE(FREEWAY_EMULATED || vm::wipe_on_fork(hole, kUnit) != vm::Answer::kDone);
}

// Kernels end the reservation first and refuse then; so whoever was refused may not touch that place again.
TEST_F(VmTest, AMoveThatIsRefusedKeepsTheMappingAndDoesNotClaimThatTheReservationIsThere) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 45;  // more than there is memory; reserving it costs none
  if (vm::can_move(kTooMuch)) GTEST_SKIP() << "overcommit is unlimited here";
  const uptr to = vm::reserve(kTooMuch, kUnit), from = vm::map(4 * kUnit, kUnit);
  if (to == 0) GTEST_SKIP() << "so much address space is not there (sanitizers need theirs)";
  *word(from + kUnit) = 6;
  const std::size_t before = address_space();
  EXPECT_FALSE(vm::move(from, 4 * kUnit, to, kTooMuch));
  EXPECT_EQ(*word(from + kUnit), 6u);
  EXPECT_TRUE(vm::release(from, 4 * kUnit));
  RecordProperty("reservation", address_space() < before - kTooMuch / 2 ? "ended" : "kept");
}

TEST_F(VmTest, AMoveIsWorthTryingWhereThereIsMemory) {
  const std::size_t before = address_space();
  EXPECT_TRUE(vm::can_move(kUnit));
  EXPECT_FALSE(vm::can_move(std::size_t{1} << 47));
  EXPECT_EQ(address_space(), before) << "asking takes nothing";
}

TEST_F(VmTest, AResizeKeepsTheContentsAndFailsWhereSomethingIsInTheWay) {
  const uptr area = vm::reserve(8 * kUnit, kUnit);
  ASSERT_TRUE(vm::release(area, 8 * kUnit));
  const uptr address = vm::map(4 * kUnit, kUnit);
  *word(address) = 5;
  ASSERT_TRUE(vm::resize(address, 4 * kUnit, 2 * kUnit));
  EXPECT_FALSE(readable(address + 2 * kUnit));
  EXPECT_EQ(*word(address), 5u);
  if (vm::resize(address, 2 * kUnit, 3 * kUnit)) {  // unless somebody has mapped it meanwhile
    EXPECT_EQ(*word(address + 2 * kUnit), 0u);
    EXPECT_TRUE(vm::release(address, 3 * kUnit));
  } else {
    EXPECT_TRUE(vm::release(address, 2 * kUnit));
  }
  const uptr two = vm::map(2 * kUnit, kUnit);
  ASSERT_TRUE(vm::purge(two + kUnit, kUnit));
  EXPECT_FALSE(vm::resize(two, kUnit, std::size_t{1} << 46)) << "there is not so much anywhere";
  EXPECT_TRUE(vm::release(two, 2 * kUnit));
}

int exit_of_child(const std::function<bool()>& f) {
  const pid_t child = fork();
  if (child == 0) _exit(f() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(VmTest, WipedMemoryIsZeroInAChildAndStaysInItsParent) {
  if (FREEWAY_EMULATED) GTEST_SKIP() << "no page is wiped here";
  const uptr address = vm::map(kUnit, kUnit);
  *word(address) = 5;
  if (vm::wipe_on_fork(address, kUnit) == vm::Answer::kNotOffered) GTEST_SKIP() << "before Linux 4.14";
  EXPECT_EQ(exit_of_child([&] { return *word(address) == 0; }), 0);
  EXPECT_EQ(*word(address), 5u);
  EXPECT_TRUE(vm::release(address, kUnit));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they have terabytes mapped already
TEST_F(VmTest, WhatIsRefusedIsAnsweredWithZeroAndCostsNothing) {
  if (FREEWAY_EMULATED) GTEST_SKIP() << "no limit is kept here";
  EXPECT_EQ(exit_of_child([] {
              const std::size_t before = address_space();
              rlimit limit;
              getrlimit(RLIMIT_AS, &limit);
              limit.rlim_cur = before + 20 * kMiB;
              setrlimit(RLIMIT_AS, &limit);
              errno = EDOM;
              bool good = true;
              for (int i = 0; i < 100; ++i) {
                good &= vm::reserve(64 * kMiB, kUnit) == 0 && vm::map(64 * kMiB, kUnit) == 0;
              }
              good &= errno == EDOM;
              const uptr small = vm::map(kMiB, kUnit);
              return good && small != 0 && vm::release(small, kMiB) && address_space() <= before + kMiB;
            }),
            0);
}
#endif

TEST_F(VmTest, MoreThanThereIsIsRefused) {
  EXPECT_EQ(vm::reserve(std::size_t{1} << 62, kUnit), 0u);
  EXPECT_EQ(vm::reserve(~std::size_t{0} - kUnit + 1, kUnit), 0u);
  EXPECT_EQ(vm::map(std::size_t{1} << 50, kUnit), 0u);
  EXPECT_EQ(vm::reserve(kUnit, std::size_t{1} << 62), 0u);
}

}  // namespace
}  // namespace freeway::test
