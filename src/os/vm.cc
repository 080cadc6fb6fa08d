// SPDX-License-Identifier: MIT
#include "os/vm.h"

#include <linux/mman.h>
#include <sys/auxv.h>

#include "base/check.h"
#include "os/syscall.h"

namespace freeway::vm {
namespace {

constexpr u64 kReadWrite = 1 | 2;                   // PROT_READ | PROT_WRITE
constexpr u64 kPrivateAnonymous = 0x02 | 0x20;      // MAP_PRIVATE | MAP_ANONYMOUS
constexpr u64 kNoReserve = 0x4000;                  // MAP_NORESERVE
constexpr u64 kDontNeed = 4;                        // MADV_DONTNEED
constexpr u64 kHugePage = 14;                       // MADV_HUGEPAGE
constexpr u64 kWipeOnFork = 18;                     // MADV_WIPEONFORK
constexpr u64 kMoveTo = 1 | 2;                      // MREMAP_MAYMOVE | MREMAP_FIXED

bool failed(long result) { return result < 0 && result >= -4095; }

uptr map_raw(std::size_t bytes, u64 protection, u64 flags) {
  long result = raw_syscall(SYS_mmap, 0, bytes, protection, flags, ~u64{0}, 0);
  return failed(result) ? 0 : static_cast<uptr>(result);
}

// Maps more than asked for and cuts off what is not aligned. Where the cut is refused (mapping limit) the whole mapping
// is given back; should that fail too, address space is lost, never memory.
uptr map_aligned(std::size_t bytes, std::size_t alignment, u64 protection, u64 flags) {
  uptr address = map_raw(bytes, protection, flags);
  if (address == 0 || address % alignment == 0) return address;
  release(address, bytes);
  std::size_t padded = bytes + alignment - page_size();
  if (padded < bytes) return 0;
  address = map_raw(padded, protection, flags);
  if (address == 0) return 0;
  uptr aligned = align_up(address, alignment);
  uptr end = aligned + bytes;
  if (aligned != address && !release(address, aligned - address)) {
    release(address, padded);
    return 0;
  }
  if (end != address + padded && !release(end, address + padded - end)) {
    release(aligned, address + padded - aligned);
    return 0;
  }
  return aligned;
}

}  // namespace

std::size_t page_size() { return getauxval(AT_PAGESZ); }

uptr reserve(std::size_t bytes, std::size_t alignment) {
  return map_aligned(bytes, alignment, 0, kPrivateAnonymous | kNoReserve);
}

uptr map(std::size_t bytes, std::size_t alignment) {
  return map_aligned(bytes, alignment, kReadWrite, kPrivateAnonymous);
}

bool commit(uptr address, std::size_t bytes) { return raw_syscall(SYS_mprotect, address, bytes, kReadWrite) == 0; }

bool purge(uptr address, std::size_t bytes) { return raw_syscall(SYS_madvise, address, bytes, kDontNeed) == 0; }

void prefer_huge(uptr address, std::size_t bytes) { raw_syscall(SYS_madvise, address, bytes, kHugePage); }

std::size_t resident(uptr address, std::size_t bytes) {
  const std::size_t page = page_size();
  std::size_t backed = 0;
  while (bytes > 0) {
    unsigned char pages[256];
    const std::size_t piece = clamp(bytes, 0, sizeof(pages) * page);
    if (raw_syscall(SYS_mincore, address, piece, reinterpret_cast<u64>(pages)) != 0) return backed + bytes;
    for (std::size_t i = 0; i < piece / page; ++i) backed += (pages[i] & 1) != 0 ? page : 0;
    address += piece;
    bytes -= piece;
  }
  return backed;
}

bool release(uptr address, std::size_t bytes) { return raw_syscall(SYS_munmap, address, bytes) == 0; }

bool offers(std::size_t bytes) {
  const uptr probe = map_raw(bytes, kReadWrite, kPrivateAnonymous);
  if (probe != 0) release(probe, bytes);
  return probe != 0;
}

bool move(uptr from, std::size_t old_bytes, uptr to, std::size_t new_bytes) {
  return !failed(raw_syscall(SYS_mremap, from, old_bytes, new_bytes, kMoveTo, to));
}

bool resize(uptr address, std::size_t old_bytes, std::size_t new_bytes) {
  return !failed(raw_syscall(SYS_mremap, address, old_bytes, new_bytes, 0));
}

Answer wipe_on_fork(uptr address, std::size_t bytes) {
  constexpr long kUnknownAdvice = -22;  // -EINVAL
  const long result = raw_syscall(SYS_madvise, address, bytes, kWipeOnFork);
  return result == 0 ? Answer::kDone : result == kUnknownAdvice ? Answer::kNotOffered : Answer::kRefused;
}

}  // namespace freeway::vm
