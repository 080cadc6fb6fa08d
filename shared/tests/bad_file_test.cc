// SPDX-License-Identifier: MIT
//
// Files that are no heaps, or heaps no more: cut off anywhere, with any byte of the header changed, of another layout,
// foreign; and heaps whose tables somebody has filled with anything: each call ends, in an error or not, and stays
// within the file.
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "shared/tests/shared_file.h"
#include "tests/support/random.h"

namespace {
using namespace freeway_test;

constexpr size_t kCapacity = 1 << 20;
constexpr unsigned kSeats = 4;
constexpr size_t kHeader = 104;  // bytes that never change

// A heap with some blocks in it, detached.
File some_heap() {
  File fd = memory_file();
  const Heap heap = make_heap(fd, kCapacity, kSeats);
  void* blocks[60];
  for (size_t i = 0; i < 60; i++) blocks[i] = ::freeway_shared_malloc(heap, i * i);
  for (size_t i = 0; i < 60; i += 2) ::freeway_shared_free(heap, blocks[i]);
  ::freeway_shared_root_replace(heap, "root", 0, ::freeway_shared_offset(heap, blocks[1]));
  return fd;
}

int attach_error(int fd) {
  errno = 0;
  const Heap heap(::freeway_shared_attach(fd));
  return heap == nullptr ? errno : 0;
}

TEST(SharedBadFile, EachByteOfTheHeaderIsLookedAt) {
  const File fd = some_heap();
  ASSERT_EQ(attach_error(fd), 0);
  for (off_t at = 0; at < static_cast<off_t>(kHeader); at++) {
    unsigned char byte;
    ASSERT_EQ(::pread(fd, &byte, 1, at), 1);
    for (int bit = 0; bit < 8; bit++) {
      const unsigned char changed = byte ^ static_cast<unsigned char>(1 << bit);
      ASSERT_EQ(::pwrite(fd, &changed, 1, at), 1);
      EXPECT_EQ(attach_error(fd), at >= 8 && at < 12 ? ENOTSUP : EINVAL) << at << " " << bit;
    }
    ASSERT_EQ(::pwrite(fd, &byte, 1, at), 1);
  }
  EXPECT_EQ(attach_error(fd), 0);
}

TEST(SharedBadFile, CutOffAnywhere) {
  const File fd = file_in("/dev/shm");  // not sealed
  ASSERT_NE(make_heap(fd, kCapacity, kSeats), nullptr);
  const size_t whole = fd.length();
  std::vector<unsigned char> header(kHeader);
  ASSERT_EQ(::pread(fd, header.data(), kHeader, 0), static_cast<ssize_t>(kHeader));
  for (size_t length = 0; length < whole; length += length < 300 ? 1 : length < 70'000 ? 999 : 49'999) {
    const File other = file_in("/dev/shm");
    ASSERT_EQ(::pwrite(other, header.data(), kHeader, 0), static_cast<ssize_t>(kHeader));
    ASSERT_EQ(::ftruncate(other, static_cast<off_t>(length)), 0);
    EXPECT_EQ(attach_error(other), EINVAL) << length;
  }
  ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(whole) + 12345), 0);  // longer does no harm
  EXPECT_EQ(attach_error(fd), 0);
}

TEST(SharedBadFile, AMemfdThatAllowsSealsKeepsItsLength) {
  const File fd(::memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const Heap heap = make_heap(fd, kCapacity, kSeats);
  ASSERT_NE(heap, nullptr);
  EXPECT_EQ(::ftruncate(fd, 4096), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(SharedBadFile, ForeignFiles) {
  const File fd = file_in("/tmp");
  Random random(1);
  for (int round = 0; round < 200; round++) {
    std::vector<uint64_t> words(random.below(3000) + 1);
    for (uint64_t& word : words) word = random.one_in(3) ? random.below(300) : random.next();
    if (random.one_in(2)) words[0] = 0x3170616568797766;  // a heap's first word
    ASSERT_EQ(::pwrite(fd, words.data(), words.size() * 8, 0), static_cast<ssize_t>(words.size() * 8));
    EXPECT_NE(attach_error(fd), 0);
  }
  const File nothing(::open("/dev/null", O_RDWR | O_CLOEXEC)), folder(::open("/tmp", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(attach_error(nothing), EINVAL);
  EXPECT_EQ(attach_error(folder), EINVAL);
  EXPECT_EQ(attach_error(-1), EBADF);
  EXPECT_EQ(attach_error(12345), EBADF);
}

TEST(SharedBadFile, OnlyForReading) {
  const std::string name = "/dev/shm/freeway-heap-" + std::to_string(::getpid());
  const File fd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_NE(make_heap(fd, kCapacity, kSeats), nullptr);
  const File reader(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  ::unlink(name.c_str());
  EXPECT_EQ(attach_error(reader), EACCES);
}

// What can be called, on whatever is there. The status: 0, or where something was that cannot be.
int use(int fd, uint64_t seed) {
  Random random(seed);
  const rlimit limit = {20, 20};
  ::setrlimit(RLIMIT_CPU, &limit);  // a call that does not end: SIGXCPU
  const Heap heap(::freeway_shared_attach(fd));
  if (heap == nullptr) return 0;
  const uint64_t root = ::freeway_shared_root_find(heap, "root");
  ::freeway_shared_free(heap, ::freeway_shared_pointer(heap, root));
  void* blocks[50] = {};
  for (int i = 0; i < 400; i++) {
    void*& block = blocks[random.below(50)];
    if (block == nullptr) {
      const size_t bytes = random.one_in(10) ? random.below(300'000) : random.below(3000);
      block = ::freeway_shared_malloc(heap, bytes);
      if (block != nullptr && ::freeway_shared_offset(heap, block) == 0) return 1;
    } else {
      const size_t usable = ::freeway_shared_usable_size(heap, block);
      if (usable != 0 && ::freeway_shared_offset(heap, static_cast<char*>(block) + usable - 1) == 0) return 2;
      if (random.one_in(20)) ::freeway_shared_alloc_into(heap, static_cast<uint64_t*>(block), 100);
      if (random.one_in(20)) ::freeway_shared_free_from(heap, static_cast<uint64_t*>(block));
      ::freeway_shared_free(heap, std::exchange(block, nullptr));
    }
    const uint64_t anywhere = random.below(uint64_t{4} << 20);
    (void)::freeway_shared_free(heap, ::freeway_shared_pointer(heap, anywhere / 16 * 16));
  }
  ::freeway_shared_recover(heap);
  ::freeway_shared_trim(heap);
  freeway_shared_stats_t stats;
  ::freeway_shared_stats(heap, &stats, sizeof(stats));
  ::freeway_shared_audit(heap, nullptr, 0);
  return 0;
}

TEST(SharedBadFile, TablesOfAnything) {
  const char* given = std::getenv("FREEWAY_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : static_cast<uint64_t>(::time(nullptr));
  const char* rounds = std::getenv("FREEWAY_TEST_ROUNDS");
  const int most = rounds != nullptr ? std::atoi(rounds) : 150;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  for (int round = 0; round < most; round++) {
    const File fd = some_heap();
    uint64_t parts[7];  // where the slabs, entries, backing bytes, hints, bits, states and the data begin
    ASSERT_EQ(::pread(fd, parts, sizeof(parts), 32), static_cast<ssize_t>(sizeof(parts)));
    const int writes = 1 << random.below(10);
    for (int i = 0; i < writes; i++) {
      const size_t part = random.below(7);  // the first: what changes of the header
      const uint64_t begin = part == 0 ? kHeader : parts[part - 1];
      const uint64_t bytes = part == 0 ? 6336 - kHeader : random.one_in(4) ? parts[part] - parts[part - 1] : 200;
      uint64_t word = random.next();
      if (random.one_in(2)) word &= (uint64_t{1} << random.between(1, 40)) - 1;
      if (random.one_in(4)) word = parts[6] + (word & 0xffff0);  // a block's offset
      const size_t length = random.one_in(2) ? 8 : 1;
      ASSERT_GT(::pwrite(fd, &word, length, static_cast<off_t>(begin + random.below(bytes) / length * length)), 0);
    }
    const uint64_t own = random.next();
    ASSERT_EQ(in_child([&] { return use(fd, own); }), 0) << "round " << round;
  }
}

}  // namespace
