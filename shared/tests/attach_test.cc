// SPDX-License-Identifier: MIT
//
// A heap in a file, from several mappings and processes: what one writes the others find, at addresses of their own; it
// stays when nobody has it; children of forks are participants of their own; what is no block, no slot, no name is an
// error.
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "shared/tests/shared_file.h"

namespace {
using namespace freeway_test;

class SharedHeap : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (*GetParam() != 0 && has_overlayfs(GetParam())) GTEST_SKIP() << "no heaps there: overlayfs";
  }
  // "": a memfd; else a folder.
  static File file() { return *GetParam() == 0 ? memory_file() : file_in(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, SharedHeap, testing::Values("", "/dev/shm", "/tmp"), [](const auto& kind) {
  return std::string(*kind.param == 0 ? "memfd" : std::string("/tmp") == kind.param ? "disk" : "shm");
});

TEST_P(SharedHeap, WhatOneWritesAnotherFindsAtAnotherAddress) {
  const File fd = file();
  const Heap heap = make_heap(fd);
  ASSERT_NE(heap, nullptr) << strerror(errno);
  auto* text = static_cast<char*>(::freeway_shared_malloc(heap, 100));
  ASSERT_NE(text, nullptr);
  ::strcpy(text, "found");
  ASSERT_EQ(::freeway_shared_root_replace(heap, "text", 0, ::freeway_shared_offset(heap, text)), 0);

  const Heap again(::freeway_shared_attach(fd));
  ASSERT_NE(again, nullptr);
  auto* there = static_cast<char*>(::freeway_shared_pointer(again, ::freeway_shared_root_find(again, "text")));
  EXPECT_NE(there, text);
  EXPECT_STREQ(there, "found");
  EXPECT_EQ(::freeway_shared_usable_size(again, there), 112u);
  EXPECT_EQ(::freeway_shared_free(again, there), 0);
  EXPECT_EQ(::freeway_shared_free(heap, text), -1);
  EXPECT_EQ(errno, EALREADY);
  EXPECT_EQ(stats_of(heap).live, 0u);
  expect_in_order(heap);
}

TEST_P(SharedHeap, StaysWhenNobodyHasIt) {
  const File fd = file();
  const auto fill = [&] {
    const Heap heap = make_heap(fd);
    auto* numbers = static_cast<uint64_t*>(::freeway_shared_calloc(heap, 1000, 8));
    if (numbers == nullptr) return 1;
    for (uint64_t i = 0; i < 1000; i++) numbers[i] = i;
    return ::freeway_shared_root_replace(heap, "numbers", 0, ::freeway_shared_offset(heap, numbers)) == 0 ? 0 : 2;
  };
  ASSERT_EQ(in_child(fill), 0);
  const Heap heap(::freeway_shared_attach(fd));
  ASSERT_NE(heap, nullptr);
  const auto* numbers =
      static_cast<uint64_t*>(::freeway_shared_pointer(heap, ::freeway_shared_root_find(heap, "numbers")));
  ASSERT_NE(numbers, nullptr);
  for (uint64_t i = 0; i < 1000; i++) ASSERT_EQ(numbers[i], i);
  EXPECT_EQ(stats_of(heap).blocks, 1u);
  expect_in_order(heap);
}

TEST_P(SharedHeap, ShrinksAgain) {
  const File fd = file();
  const Heap heap = make_heap(fd, size_t{64} << 20);
  const size_t before = fd.taken();
  std::vector<void*> blocks;
  for (size_t i = 0; i < 1000; i++) blocks.push_back(::freeway_shared_malloc(heap, 10'000));
  void* large = ::freeway_shared_malloc(heap, size_t{16} << 20);
  ASSERT_NE(large, nullptr);
  EXPECT_GT(fd.taken(), before + (size_t{16} << 20) + 10'000'000);
  EXPECT_EQ(::freeway_shared_free(heap, large), 0);
  EXPECT_LT(fd.taken(), before + (size_t{16} << 20));  // large blocks at once
  for (void* block : blocks) EXPECT_EQ(::freeway_shared_free(heap, block), 0);
  EXPECT_GT(::freeway_shared_trim(heap), 8'000'000u);
  EXPECT_EQ(stats_of(heap).backed, 0u);
  EXPECT_LT(fd.taken(), before + 1'000'000);
  void* block = ::freeway_shared_calloc(heap, 1, 300'000);  // where there are holes now
  ASSERT_NE(block, nullptr);
  ::memset(block, 1, 300'000);
  expect_in_order(heap);
}

// /proc would open it for both.
TEST_P(SharedHeap, ADescriptorForReadingOrWritingAloneMakesNone) {
  const File fd = file();
  for (const int mode : {O_RDONLY, O_WRONLY}) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    const File one(::open(path.c_str(), mode | O_CLOEXEC));
    ASSERT_GE(one, 0);
    EXPECT_EQ(make_heap(one), nullptr);
    EXPECT_EQ(errno, EACCES);
    EXPECT_EQ(fd.length(), 0u);
  }
  const Heap heap = make_heap(fd);
  ASSERT_NE(heap, nullptr);
}

TEST(SharedHeapCalls, AlignmentsAndSizes) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  for (size_t alignment = 1; alignment <= 65536; alignment *= 2)
    for (const size_t size :
         {size_t{0}, size_t{1}, size_t{100}, size_t{5000}, size_t{32768}, size_t{32769}, size_t{200'000}}) {
      void* block = ::freeway_shared_aligned_alloc(heap, alignment, size);
      ASSERT_NE(block, nullptr) << alignment << " " << size;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % (alignment < 16 ? 16 : alignment), 0u);
      EXPECT_GE(::freeway_shared_usable_size(heap, block), size);
      ::memset(block, 0xa5, ::freeway_shared_usable_size(heap, block));
      EXPECT_EQ(::freeway_shared_free(heap, block), 0);
    }
  const auto* zeroed =
      static_cast<unsigned char*>(::freeway_shared_calloc(heap, 100, 50));  // memory that was written to
  for (size_t i = 0; i < 5000; i++) ASSERT_EQ(zeroed[i], 0);
  expect_in_order(heap);
}

TEST(SharedHeapCalls, WhatIsWrongIsAnError) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  auto* block = static_cast<char*>(::freeway_shared_malloc(heap, 100));
  auto* large = static_cast<char*>(::freeway_shared_malloc(heap, 200'000));
  uint64_t outside = 0;
  const auto refuses_to_free = [&](void* pointer) {
    errno = 0;
    return ::freeway_shared_free(heap, pointer) == -1 && errno == EINVAL;
  };
  EXPECT_TRUE(refuses_to_free(block + 16));
  EXPECT_TRUE(refuses_to_free(block + 1));
  EXPECT_TRUE(refuses_to_free(large + 65536));
  EXPECT_TRUE(refuses_to_free(large + 16));
  EXPECT_TRUE(refuses_to_free(&outside));
  EXPECT_TRUE(refuses_to_free(heap));
  EXPECT_TRUE(refuses_to_free(reinterpret_cast<void*>(~uintptr_t{0})));
  EXPECT_EQ(::freeway_shared_usable_size(heap, block + 16), 0u);
  EXPECT_EQ(::freeway_shared_offset(heap, &outside), 0u);
  for (const uint64_t offset : {uint64_t{1}, uint64_t{4096}, uint64_t{1} << 40, ~uint64_t{0}})
    EXPECT_EQ(::freeway_shared_pointer(heap, offset), nullptr) << offset;
  EXPECT_EQ(::freeway_shared_malloc(heap, SIZE_MAX), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(::freeway_shared_malloc(heap, size_t{65} << 20), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(::freeway_shared_calloc(heap, SIZE_MAX / 2, 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  for (const size_t alignment : {size_t{0}, size_t{3}, size_t{131072}}) {
    EXPECT_EQ(::freeway_shared_aligned_alloc(heap, alignment, 10), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(::freeway_shared_alloc_into(heap, &outside, 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(::freeway_shared_alloc_into(heap, reinterpret_cast<uint64_t*>(block + 4), 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ::memset(block, 0x77, 16);  // no offset of a block
  EXPECT_EQ(::freeway_shared_free_from(heap, reinterpret_cast<uint64_t*>(block)), -1);
  EXPECT_EQ(errno, EINVAL);
  for (const char* name : {"", "a name that is one byte longer than a name may b"}) {
    EXPECT_EQ(::freeway_shared_root_replace(heap, name, 0, 1), -1);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(::freeway_shared_free(heap, block), 0);
  EXPECT_EQ(::freeway_shared_free(heap, large), 0);
  EXPECT_EQ(::freeway_shared_free(heap, large), -1);
  EXPECT_EQ(errno, EALREADY);
  EXPECT_EQ(stats_of(heap).blocks, 0u);
  expect_in_order(heap);
}

TEST(SharedHeapCalls, ABlockIsInItsSlotOrFree) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  auto* slots = static_cast<uint64_t*>(::freeway_shared_calloc(heap, 4, 8));
  const size_t sizes[] = {1, 1000, 32'768, 500'000};
  for (size_t i = 0; i < 4; i++) {
    void* block = ::freeway_shared_alloc_into(heap, &slots[i], sizes[i]);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(::freeway_shared_pointer(heap, slots[i]), block);
  }
  EXPECT_EQ(stats_of(heap).blocks, 5u);
  for (size_t i = 0; i < 4; i++) {
    EXPECT_EQ(::freeway_shared_free_from(heap, &slots[i]), 0);
    EXPECT_EQ(slots[i], 0u);
    EXPECT_EQ(::freeway_shared_free_from(heap, &slots[i]), 0);  // there is none
  }
  EXPECT_EQ(stats_of(heap).blocks, 1u);
  EXPECT_EQ(::freeway_shared_alloc_into(heap, slots, size_t{1} << 40), nullptr);
  EXPECT_EQ(slots[0], 0u);
}

TEST(SharedHeapCalls, ASlotLiesInALiveBlock) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  for (const size_t size : {size_t{100}, size_t{20'000}, size_t{200'000}}) {
    auto* block = static_cast<uint64_t*>(::freeway_shared_calloc(heap, 1, size));
    void* neighbour = ::freeway_shared_malloc(heap, size);
    const size_t last = ::freeway_shared_usable_size(heap, block) / 8 - 1;
    for (const size_t at : {size_t{0}, size_t{1}, last}) {
      EXPECT_NE(::freeway_shared_alloc_into(heap, &block[at], 50), nullptr) << size << " " << at;
      EXPECT_EQ(::freeway_shared_free_from(heap, &block[at]), 0);
    }
    auto* kept = static_cast<uint64_t*>(::freeway_shared_malloc(heap, 50));
    block[1] = ::freeway_shared_offset(heap, kept);
    ASSERT_EQ(::freeway_shared_free(heap, block), 0);
    const freeway_shared_stats_t before = stats_of(heap);
    for (const size_t at : {size_t{0}, size_t{1}, last}) {
      errno = 0;
      EXPECT_EQ(::freeway_shared_alloc_into(heap, &block[at], 50), nullptr) << size << " " << at;
      EXPECT_EQ(errno, EINVAL);
      errno = 0;
      EXPECT_EQ(::freeway_shared_free_from(heap, &block[at]), -1) << size << " " << at;
      EXPECT_EQ(errno, EINVAL);
    }
    EXPECT_EQ(stats_of(heap).blocks, before.blocks);
    EXPECT_EQ(::freeway_shared_free(heap, kept), 0);
    EXPECT_EQ(::freeway_shared_free(heap, neighbour), 0);
  }
  // Behind a superblock's last block there is none: 56 of 1,152 bytes in a frame, and something is left.
  auto* block = static_cast<char*>(::freeway_shared_malloc(heap, 1152));
  auto* rest = reinterpret_cast<uint64_t*>(block + (65'536 - ::freeway_shared_offset(heap, block) % 65'536) - 8);
  EXPECT_EQ(::freeway_shared_alloc_into(heap, rest, 50), nullptr);
  EXPECT_EQ(errno, EINVAL);
  expect_in_order(heap);
}

TEST(SharedHeapCalls, RootsAreReplacedAtomically) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  EXPECT_EQ(::freeway_shared_root_find(heap, "counter"), 0u);
  constexpr uint64_t kEach = 20'000;
  const auto count = [&] {
    const Heap own(::freeway_shared_attach(fd));
    for (uint64_t done = 0; done < kEach;) {
      const uint64_t seen = ::freeway_shared_root_find(own, "counter");
      done += ::freeway_shared_root_replace(own, "counter", seen, seen + 1) == 0;
    }
    return 0;
  };
  pid_t children[4];
  for (pid_t& child : children) child = start_child(count);
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(::freeway_shared_root_find(heap, "counter"), 4 * kEach);
  // All 64, of which each begins as others do; one more has no room, and the old ones stay.
  for (int i = 1; i < 64; i++) {
    const std::string name = std::string(static_cast<size_t>(i % 40), 'x') + std::to_string(i);
    ASSERT_EQ(::freeway_shared_root_replace(heap, name.c_str(), 0, static_cast<uint64_t>(i)), 0);
    ASSERT_EQ(::freeway_shared_root_find(heap, name.c_str()), static_cast<uint64_t>(i));
  }
  EXPECT_EQ(::freeway_shared_root_replace(heap, "one more", 0, 1), -1);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(::freeway_shared_root_replace(heap, "counter", 0, 1), -1);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(::freeway_shared_root_find(heap, "xx2"), 2u);
}

TEST(SharedHeapMaking, OptionsAndFilesThatAreNot) {
  constexpr size_t kLeast = 1 << 20;
  const File fd = memory_file();
  const auto refused = [&](int file, size_t capacity, unsigned seats, int error) {
    const freeway_shared_options_t options = {capacity, seats};
    errno = 0;
    return ::freeway_shared_create(file, &options, sizeof(options)) == nullptr && errno == error;
  };
  EXPECT_TRUE(refused(fd, kLeast - 1, 0, EINVAL));
  EXPECT_TRUE(refused(fd, (size_t{2} << 40) + 1, 0, EINVAL));
  EXPECT_TRUE(refused(fd, kLeast, 1, EINVAL));
  EXPECT_TRUE(refused(fd, kLeast, 255, EINVAL));
  EXPECT_TRUE(refused(-1, kLeast, 2, EBADF));
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const File reader(pipe_ends[0]), writer(pipe_ends[1]);
  EXPECT_TRUE(refused(writer, kLeast, 2, EINVAL));
  EXPECT_EQ(::freeway_shared_attach(fd), nullptr);  // empty
  EXPECT_EQ(errno, EINVAL);
  const Heap heap = make_heap(fd, kLeast, 2);
  ASSERT_NE(heap, nullptr);
  EXPECT_TRUE(refused(fd, kLeast, 2, EEXIST));
  EXPECT_NE(::freeway_shared_malloc(heap, 30'000), nullptr);
  EXPECT_EQ(::freeway_shared_malloc(heap, 65'536), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(SharedHeapMaking, TheLongestCostsAddressesOnly) {
  constexpr size_t kLongest = size_t{2} << 40, kWithTables = kLongest + kLongest / 8;
  void* room = ::mmap(nullptr, kWithTables, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) GTEST_SKIP() << "so many addresses there are not";  // beside ThreadSanitizer's
  ::munmap(room, kWithTables);
  const File longest_file = memory_file();
  const Heap longest = make_heap(longest_file, kLongest);
  ASSERT_NE(longest, nullptr) << strerror(errno);
  EXPECT_NE(::freeway_shared_malloc(longest, 100), nullptr);
  EXPECT_LT(longest_file.taken(), 2'000'000u);
}

TEST(SharedHeapMaking, AFileInWhichSomebodyWasKilledWhileMakingOneIsEmpty) {
  // Whatever it wrote behind these eight bytes.
  for (const int seals : {0, F_SEAL_SHRINK}) {
    const File fd(::memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const std::string begun = "fwyheap?" + std::string(1'000'000, 'x');
    ASSERT_EQ(::pwrite(fd, begun.data(), begun.size(), 0), static_cast<ssize_t>(begun.size()));
    ASSERT_EQ(::fcntl(fd, F_ADD_SEALS, seals), 0);
    EXPECT_EQ(::freeway_shared_attach(fd), nullptr);
    EXPECT_EQ(errno, EINVAL);
    const Heap heap = make_heap(fd, size_t{1} << 20, 2);
    EXPECT_NE(::freeway_shared_malloc(heap, 10), nullptr);
    EXPECT_EQ(stats_of(heap).blocks, 1u);
    expect_in_order(heap);
  }
  // Of many who make one at once one does.
  for (int round = 0; round < 20; round++) {
    const File other = memory_file();
    const auto make = [&] {
      const Heap mine = make_heap(other);
      return mine != nullptr ? 1 : errno == EEXIST || errno == EBUSY ? 0 : 2;
    };
    pid_t children[4];
    int made = 0;
    for (pid_t& child : children) child = start_child(make);
    for (const pid_t child : children) made += status_of(child);
    EXPECT_EQ(made, 1);
  }
}

// --- Processes. ------------------------------------------------------------------------------------------------------

TEST(SharedHeapLife, AChildIsAParticipantOfItsOwn) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  auto* block = static_cast<char*>(::freeway_shared_malloc(heap, 100));
  const freeway_shared_stats_t before = stats_of(heap);
  EXPECT_EQ(before.attached, 1u);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const File reader(pipe_ends[0]), writer(pipe_ends[1]);
  const auto use = [&] {
    ::strcpy(block, "of the child");  // shared, at the same address
    void* own = ::freeway_shared_malloc(heap, 100);
    if (own == nullptr || ::write(writer, "x", 1) != 1) return 1;
    ::pause();
    return 0;
  };
  const pid_t child = start_child(use);
  char byte;
  ASSERT_EQ(::read(reader, &byte, 1), 1);
  EXPECT_STREQ(block, "of the child");
  EXPECT_EQ(stats_of(heap).attached, 2u);
  EXPECT_EQ(stats_of(heap).seats, before.seats + 1);
  EXPECT_EQ(::freeway_shared_recover(heap), 0);  // both live
  ::kill(child, SIGKILL);
  EXPECT_EQ(status_of(child), kKilled);
  EXPECT_EQ(stats_of(heap).seats_dead, 1u);
  EXPECT_EQ(::freeway_shared_recover(heap), 1);
  EXPECT_EQ(stats_of(heap).attached, 1u);
  EXPECT_EQ(stats_of(heap).blocks, 2u);  // what the child had is live: nobody noted where
  expect_in_order(heap);
}

TEST(SharedHeapLife, AChildThatDoesNothingKeepsNobodyAlive) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const File reader(pipe_ends[0]), writer(pipe_ends[1]);
  const auto parent = [&] {
    const Heap own(::freeway_shared_attach(fd));
    if (::freeway_shared_malloc(own, 100) == nullptr) return 1;
    const pid_t grandchild = start_child([] { return ::pause(); });
    if (::write(writer, &grandchild, sizeof(grandchild)) != sizeof(grandchild)) return 1;
    ::pause();
    return 0;
  };
  const pid_t child = start_child(parent);
  pid_t grandchild = 0;
  ASSERT_EQ(::read(reader, &grandchild, sizeof(grandchild)), static_cast<ssize_t>(sizeof(grandchild)));
  EXPECT_EQ(stats_of(heap).attached, 2u);
  ::kill(child, SIGKILL);
  EXPECT_EQ(status_of(child), kKilled);
  EXPECT_EQ(::kill(grandchild, 0), 0);
  EXPECT_EQ(stats_of(heap).attached, 1u);
  EXPECT_EQ(::freeway_shared_recover(heap), 1);
  expect_in_order(heap);
  ::kill(grandchild, SIGKILL);
}

TEST(SharedHeapLife, DISABLED_Pauses) { ::pause(); }  // what the next one executes
TEST(SharedHeapLife, ExecEndsALife) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  const pid_t child = start_child([&] {
    if (::freeway_shared_malloc(heap, 100) == nullptr) return 1;
    ::execl("/proc/self/exe", "pauses", "--gtest_also_run_disabled_tests", "--gtest_filter=*Pauses", nullptr);
    return 2;
  });
  while (::freeway_shared_recover(heap) == 0) ::usleep(1000);
  EXPECT_EQ(::kill(child, 0), 0);
  expect_in_order(heap);
  ::kill(child, SIGKILL);
  EXPECT_EQ(status_of(child), kKilled);
}

TEST(SharedHeapLife, ClosedDescriptorsOfTheProgramsAreNoDeath) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  const auto use = [&] {
    freeway_shared_t* own = ::freeway_shared_attach(fd);
    if (own == nullptr || ::freeway_shared_malloc(own, 100) == nullptr) return 1;
    ::close_range(3, ~0u, 0);  // the library's own, too
    if (::freeway_shared_recover(own) != -1 || errno != EBADF) return 2;
    const int other = ::memfd_create("another file in its place", 0);
    for (int i = 0; i < 100; i++) ::dup(other);
    if (::freeway_shared_recover(own) != -1 || errno != EBADF) return 3;
    const File heaps = memory_file();  // another heap in its place: who has that one does not count
    const Heap stranger = make_heap(heaps), guest(::freeway_shared_attach(heaps)),
               third(::freeway_shared_attach(heaps));
    for (int i = 3; i < 100; i++)
      if (i != heaps) ::dup2(heaps, i);
    if (stats_of(own).attached != 2 || stats_of(own).seats_dead != 0) return 5;
    void* block = ::freeway_shared_malloc(own, 50'000);
    if (block == nullptr) return (errno == ENOMEM || errno == EAGAIN) && !has_populate_write() ? 0 : 4;
    return ::freeway_shared_free(own, block) == 0 ? 0 : 6;
  };
  EXPECT_EQ(in_child(use), 0);
  EXPECT_EQ(::freeway_shared_recover(heap),
            has_populate_write() ? 1 : 0);  // else it has left its seat for want of memory
  expect_in_order(heap);
}

TEST(SharedHeapLife, DetachClosesNoStrangersDescriptor) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  const auto use = [&] {
    freeway_shared_t* own = ::freeway_shared_attach(fd);
    if (own == nullptr) return 1;
    ::close_range(3, ~0u, 0);
    const int other = ::memfd_create("another file in its place", 0);
    int last = other;
    for (int i = 0; i < 100; i++) last = ::dup(other);
    ::freeway_shared_detach(own);
    for (int i = other; i <= last; i++)
      if (::fcntl(i, F_GETFD) < 0) return 2;
    return 0;
  };
  EXPECT_EQ(in_child(use), 0);
}

TEST(SharedHeapLife, TheFirstThreadMayHaveEndedBefore) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  static int shared_fd;
  shared_fd = fd;
  const auto use = [] {
    pthread_t thread;
    const auto attach = [](void*) -> void* {
      const auto has_ended = [] {  // its descriptors are no more to be found
        char path[64];
        ::snprintf(path, sizeof(path), "/proc/self/fd/%d", shared_fd);
        return ::access(path, F_OK) != 0;
      };
      while (!has_ended()) ::usleep(1000);
      freeway_shared_t* own = ::freeway_shared_attach(shared_fd);
      ::_exit(own != nullptr && ::freeway_shared_malloc(own, 100) != nullptr ? 0 : 1);
    };
    if (::pthread_create(&thread, nullptr, attach, nullptr) != 0) return 2;
    ::syscall(SYS_exit, 0);  // of this thread
    return 3;
  };
  EXPECT_EQ(in_child(use), 0);
}

// There a mapping does not keep the file's description, and so no lock: everybody would look dead.
TEST(SharedHeapLife, OverlayfsIsRefused) {
  constexpr int kNoOverlay = 77;
  const auto use = [] {
    char place[] = "/tmp/freeway-overlay-XXXXXX";
    if (::mkdtemp(place) == nullptr) return kNoOverlay;
    const auto make = [&] {
      if ((::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
          ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("none", place, "tmpfs", 0, nullptr) != 0 || ::chdir(place) != 0)
        return kNoOverlay;
      for (const char* folder : {"lower", "upper", "work", "all"})
        if (::mkdir(folder, 0700) != 0) return kNoOverlay;
      if (::mount("none", "all", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work") != 0) return kNoOverlay;
      const File fd = file_in("all");
      if (::freeway_shared_create(fd, nullptr, 0) != nullptr || errno != ENOLCK) return 1;
      if (fd.length() != 0) return 2;
      const File heaps = file_in("upper");  // a heap that was copied there
      make_heap(heaps, size_t{1} << 20, 2);
      char header[4096];
      if (::ftruncate(fd, static_cast<off_t>(heaps.length())) != 0 ||
          ::pread(heaps, header, sizeof(header), 0) != sizeof(header) ||
          ::pwrite(fd, header, sizeof(header), 0) != sizeof(header))
        return 4;
      return ::freeway_shared_attach(fd) == nullptr && errno == ENOLCK ? 0 : 3;
    };
    const int result = in_child(make);
    ::rmdir(place);
    return result;
  };
  const int result = in_child(use);
  if (result == kNoOverlay) GTEST_SKIP() << "no overlayfs here";
  EXPECT_EQ(result, 0);
}

TEST(SharedHeapLife, AsManyCallsAtOnceAsThereAreSeats) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd, size_t{16} << 20, 4);
  // More threads than seats: each call that finds none says so, and nothing else goes wrong.
  constexpr int kThreads = 8, kEach = 20'000;
  size_t refused[kThreads] = {}, done[kThreads] = {}, wrong[kThreads] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; i++) {
        void* block = ::freeway_shared_malloc(heap, 200);
        if (block == nullptr) {
          ++(errno == EAGAIN ? refused : wrong)[t];
          continue;
        }
        int freed;
        while ((freed = ::freeway_shared_free(heap, block)) != 0 && errno == EAGAIN) continue;
        ++(freed == 0 ? done : wrong)[t];
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; t++) {
    EXPECT_EQ(wrong[t], 0u);
    EXPECT_EQ(done[t] + refused[t], static_cast<size_t>(kEach));
    EXPECT_GT(done[t], 0u);
  }
  EXPECT_LE(stats_of(heap).seats, 4u);
  EXPECT_EQ(stats_of(heap).live, 0u);
  expect_in_order(heap);
}

TEST(SharedHeapLife, SeatsOfTheDeadAreTakenOver) {
  const File fd = memory_file();
  const Heap first = make_heap(fd, size_t{16} << 20, 2);
  for (int round = 0; round < 5; round++) {
    const auto die = [&] {
      const Heap own(::freeway_shared_attach(fd));
      for (int i = 0; i < 100; i++)
        if (::freeway_shared_malloc(own, 1000) == nullptr) return 1;
      ::kill(::getpid(), SIGKILL);
      return 2;
    };
    EXPECT_EQ(in_child(die), kKilled);
  }
  // All seats have dead owners but one.
  const Heap heap(::freeway_shared_attach(fd));
  ASSERT_NE(heap, nullptr);
  EXPECT_NE(::freeway_shared_malloc(heap, 100), nullptr);
  EXPECT_EQ(stats_of(heap).blocks, 501u);
  expect_in_order(heap);
}

TEST(SharedHeapLife, AHandlerTakesAnotherSeat) {
  const File fd = memory_file();
  static freeway_shared_t* heap;
  static volatile sig_atomic_t runs, failures;
  const Heap own = make_heap(fd);
  heap = own;
  struct sigaction action = {};
  action.sa_handler = [](int) {
    const int kept = errno;
    void* block = ::freeway_shared_malloc(heap, 300);
    if (block == nullptr || ::freeway_shared_free(heap, block) != 0) failures = failures + 1;
    runs = runs + 1;
    errno = kept;
  };
  ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
  const pthread_t self = ::pthread_self();
  bool done = false;
  std::thread sender([&] {
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) ::pthread_kill(self, SIGUSR1), ::usleep(20);
  });
  while (runs < 2000) {
    void* block = ::freeway_shared_malloc(heap, 300);
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(::freeway_shared_free(heap, block), 0);
  }
  __atomic_store_n(&done, true, __ATOMIC_RELEASE);
  sender.join();
  EXPECT_EQ(failures, 0);
  EXPECT_LE(stats_of(heap).seats, 3u);
  EXPECT_EQ(stats_of(heap).live, 0u);
  expect_in_order(heap);
}

}  // namespace
