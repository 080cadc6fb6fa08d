// SPDX-License-Identifier: MIT
//
// abi_test.h: what the tests of the exported functions share: the sizes at which an allocator changes its ways,
// patterns that tell one block from another, and `hide`, which keeps the compiler from reasoning about malloc.
#ifndef FREEWAY_TESTS_ABI_ABI_TEST_H
#define FREEWAY_TESTS_ABI_ABI_TEST_H

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/engine_under_test.h"

// C23; older <stdlib.h> do not declare them.
extern "C" {
void free_sized(void* block, size_t size) noexcept;
void free_aligned_sized(void* block, size_t alignment, size_t size) noexcept;
}

namespace freeway::test {

inline constexpr size_t kKiB = size_t{1} << 10;
inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kLargestSmall = 32 * kKiB;   // one byte more is a large block: whole frames
inline constexpr size_t kLargestLarge = 256 * kMiB;  // beyond it a block has a mapping of its own

// Every size at or beside a place where something changes: the fundamental alignment, powers of two, the end of the
// byte table (1 KiB), pages, the end of the small classes, frames of 64 KiB, chunks of 4 MiB.
inline constexpr size_t kInterestingSizes[] = {
    0,       1,       2,       3,       7,       8,       9,       15,     16,     17,     23,     24,
    25,      31,      32,      33,      47,      48,      49,      63,     64,     65,     80,     96,
    100,     127,     128,     129,     160,     191,     192,     193,    255,    256,    257,    320,
    384,     448,     511,     512,     513,     640,     1000,    1023,   1024,   1025,   1280,   1500,
    1536,    1792,    2000,    2047,    2048,    2049,    3000,    4095,   4096,   4097,   5000,   6144,
    8191,    8192,    8193,    10000,   12288,   16383,   16384,   16385,  20000,  24576,  32767,  32768,
    32769,   50000,   65535,   65536,   65537,   98304,   100000,  131071, 131072, 131073, 262144, 500000,
    1048575, 1048576, 1048577, 3000000, 4194303, 4194304, 4194305, 5000000};

// Products and sums of block sizes wrap somewhere above PTRDIFF_MAX: no request of these can ever be met.
inline constexpr size_t kImpossibleSizes[] = {size_t{PTRDIFF_MAX} - 1,
                                              size_t{PTRDIFF_MAX},
                                              size_t{PTRDIFF_MAX} + 1,
                                              size_t{PTRDIFF_MAX} + 2,
                                              SIZE_MAX / 4 * 3,
                                              SIZE_MAX - 4 * kMiB,
                                              SIZE_MAX - 64 * kKiB + 1,
                                              SIZE_MAX - 64 * kKiB,
                                              SIZE_MAX - 4096,
                                              SIZE_MAX - 4095,
                                              SIZE_MAX - 64,
                                              SIZE_MAX - 16,
                                              SIZE_MAX - 15,
                                              SIZE_MAX - 8,
                                              SIZE_MAX - 1,
                                              SIZE_MAX};

// Returns `value`, about which the compiler then knows nothing: it can neither drop a malloc whose block is unused, nor
// fold what malloc "must" return, nor warn about the misuse that a test is there to try.
#if defined(__clang__)
#define FREEWAY_TEST_OPAQUE [[gnu::noinline]]
#else
#define FREEWAY_TEST_OPAQUE [[gnu::noipa]]
#endif
template <class T> FREEWAY_TEST_OPAQUE T hide(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

inline bool is_aligned(const void* block, size_t alignment) {
  return (reinterpret_cast<uintptr_t>(block) & (alignment - 1)) == 0;
}

inline unsigned char pattern_byte(size_t index, unsigned tag) {
  return static_cast<unsigned char>((index * 131 + (index >> 8) * 17 + tag * 29 + 7) & 0xff);
}

// Writes the pattern of `tag` to bytes [0, size) of `block`.
inline void fill(void* block, size_t size, unsigned tag) {
  auto* bytes = static_cast<unsigned char*>(block);
  for (size_t i = 0; i < size; ++i) bytes[i] = pattern_byte(i, tag);
}

// True if bytes [0, size) of `block` still hold the pattern of `tag`.
inline bool holds(const void* block, size_t size, unsigned tag) {
  const auto* bytes = static_cast<const unsigned char*>(block);
  for (size_t i = 0; i < size; ++i)
    if (bytes[i] != pattern_byte(i, tag)) return false;
  return true;
}

// The same for blocks too big to touch whole: 64 bytes at both ends and at every 8 MiB.
inline constexpr size_t kProbe = 64;
inline constexpr size_t kProbeStep = 8 * kMiB;

inline void fill_probes(void* block, size_t size, unsigned tag) {
  auto* bytes = static_cast<unsigned char*>(block);
  for (size_t at = 0; at + kProbe <= size; at += kProbeStep) fill(bytes + at, kProbe, tag + unsigned(at / kProbeStep));
}

inline bool holds_probes(const void* block, size_t size, unsigned tag) {
  const auto* bytes = static_cast<const unsigned char*>(block);
  for (size_t at = 0; at + kProbe <= size; at += kProbeStep)
    if (!holds(bytes + at, kProbe, tag + unsigned(at / kProbeStep))) return false;
  return true;
}

inline bool is_zero(const void* block, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(block);
  for (size_t i = 0; i < size; ++i)
    if (bytes[i] != 0) return false;
  return true;
}

// The number after `key` in /proc/self/`file`, in the file's unit; 0 if there is none. Uses no malloc, so that it does
// not move what it measures.
inline size_t proc_value(const char* file, const char* key) {
  char path[64];
  char text[8192];
  snprintf(path, sizeof path, "/proc/self/%s", file);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t length = 0;
  for (ssize_t got; length < sizeof text - 1 && (got = read(fd, text + length, sizeof text - 1 - length)) > 0;)
    length += static_cast<size_t>(got);
  close(fd);
  text[length] = 0;
  const char* found = strstr(text, key);
  return found == nullptr ? 0 : strtoull(found + strlen(key), nullptr, 10);
}

// Memory of this process that is not backed by a file and is resident, exactly (statm's counters may lag), in bytes.
inline size_t anonymous_rss() { return proc_value("smaps_rollup", "Anonymous:") * kKiB; }

// Address space of this process, in bytes.
inline size_t address_space() { return proc_value("status", "VmSize:") * kKiB; }

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_ABI_ABI_TEST_H
