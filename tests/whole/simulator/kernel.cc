// SPDX-License-Identifier: MIT
#include "tests/whole/simulator/kernel.h"

#include <errno.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace freeway::sim {

Kernel kernel;

namespace {

constexpr std::size_t kRealPage = 4096;
constexpr std::pair<Kernel::Address, Kernel::Address> kAreas[] = {{Kernel::kBegin, Kernel::kEnd},
                                                                  {Kernel::kFarBegin, Kernel::kFarEnd}};
constexpr unsigned kForgetAfter = 12;  // seeds
constexpr int kWipeOnFork = 18, kPopulateWrite = 23, kDontUnmap = 4;

// Whether a small mapping of the library's may lie there, but no piece of an arena, if it has the first of its windows.
bool is_beside_ranges(Kernel::Address at) {
  constexpr std::size_t kWindow = std::size_t{2} << 30, kFarWindow = std::size_t{8} << 30;
  const auto is_small = [at](Kernel::Address begin, std::size_t bytes) {
    return at >= begin + bytes / 8 * 6 && at < begin + bytes / 8 * 7;
  };
  return is_small(Kernel::kBegin, kWindow) || is_small(Kernel::kFarBegin, kFarWindow) ||
         (at >= Kernel::kWindowEnd && at < Kernel::kEnd);
}

bool is_zero(Kernel::Address page) {
  const auto* word = reinterpret_cast<const std::uint64_t*>(page);
  std::uint64_t any = 0;
  for (std::size_t i = 0; i < kRealPage / 8; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) any |= word[i + j];
    if (any != 0) return false;
  }
  return true;
}

}  // namespace

void Kernel::boot() {
  for (const auto& [begin, end] : kAreas) {
    void* area = mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (area != reinterpret_cast<void*>(begin)) {
      perror("simulator: the area of memory cannot be mapped");
      exit(2);
    }
    madvise(area, end - begin, MADV_NOHUGEPAGE);
  }
}

// Calls f(page) for the pages that have been touched in any seed, until it returns false. Whether it never did.
bool Kernel::each_resident(Address at, std::size_t bytes, bool (*f)(Address page)) {
  Address from = at & ~(kRealPage - 1);
  const Address end = at + bytes;
  while (from < end) {
    unsigned char pages[4096];
    const std::size_t piece = end - from < sizeof(pages) * kRealPage ? end - from : sizeof(pages) * kRealPage;
    if (mincore(reinterpret_cast<void*>(from), piece, pages) != 0) abort();
    for (std::size_t i = 0; i < (piece + kRealPage - 1) / kRealPage; ++i)
      if ((pages[i] & 1) != 0 && !f(from + i * kRealPage)) return false;
    from += piece;
  }
  return true;
}

void Kernel::zero(Address at, std::size_t bytes) {
  if (bytes > std::size_t{64} << 20) {
    madvise(reinterpret_cast<void*>(at), bytes, MADV_DONTNEED);
    return;
  }
  each_resident(at, bytes, [](Address there) {
    if (!is_zero(there)) memset(reinterpret_cast<void*>(there), 0, kRealPage);
    return true;
  });
}

std::string Kernel::check() {
  char text[80];
  for (const auto& [at, end] : cut_) {
    for (Address from = at; from < end;) {
      // The part of it that is not mapped again.
      const auto next = ranges_.upper_bound(from);
      if (next != ranges_.begin() && std::prev(next)->second.end > from) {
        from = std::prev(next)->second.end;
        continue;
      }
      const Address to = next == ranges_.end() || next->first > end ? end : next->first;
      const Address written = to - from <= std::size_t{64} << 20 ? first_filled(from, to - from) : 0;
      if (written != 0)
        return snprintf(text, sizeof(text), "memory at %#zx was written after it was unmapped", written), text;
      from = to;
    }
  }
  constexpr std::size_t kBehind = 256 * 1024;
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    const Address begin = range->second.end;
    const auto next = std::next(range);
    Address to = begin + kBehind;
    if (next != ranges_.end() && next->first < to) to = next->first;
    if (begin >= to || !is_inside(begin, to - begin)) continue;
    const Address written = first_filled(begin, to - begin);
    if (written != 0)
      return snprintf(text, sizeof(text), "memory at %#zx was written before it was mapped", written), text;
  }
  return "";
}

void Kernel::reset() {
  // Pages that some seed has touched cost each later one a look. After a fault anything may have been written anywhere.
  if (++resets_ % kForgetAfter == 0 || is_spoilt) {
    for (const auto& [begin, end] : kAreas) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  } else {
    for (const auto& [at, range] : ranges_) zero(at, range.end - at);
  }
  is_spoilt = false;
  ranges_.clear();
  cut_.clear();
  page = 4096;
  refused_one_in = calls = refusals = drawn = 0;
  refuses = true;
  most_mappings = ~std::size_t{0};
  longest = kLongest;
}

bool Kernel::is_free(Address at, std::size_t bytes) const {
  const auto after = ranges_.lower_bound(at + bytes);
  return after == ranges_.begin() || std::prev(after)->second.end <= at;
}

bool Kernel::is_mapped(Address at, std::size_t bytes) const {
  auto range = ranges_.upper_bound(at);
  if (range == ranges_.begin()) return false;
  --range;
  for (Address reached = at; reached < at + bytes; reached = (range++)->second.end)
    if (range == ranges_.end() || range->first > reached || range->second.end <= reached) return false;
  return true;
}

bool Kernel::is_accessible(Address at, std::size_t bytes) const {
  if (!is_mapped(at, bytes)) return false;
  for (auto range = std::prev(ranges_.upper_bound(at)); range != ranges_.end() && range->first < at + bytes; ++range)
    if ((range->second.protection & PROT_WRITE) == 0) return false;
  return true;
}

template <class F> void Kernel::each_mapping(F&& f) const {
  for (auto range = ranges_.begin(); range != ranges_.end();) {
    const auto [begin, first] = *range;
    Address end = begin;
    std::size_t accessible = 0;
    for (; range != ranges_.end() && range->second.number == first.number; ++range) {
      end = range->second.end;
      if (range->second.protection != PROT_NONE) accessible += end - range->first;
    }
    if (!first.foreign) f(begin, end - begin, accessible);
  }
}

std::size_t Kernel::count_accessible(std::size_t bytes) const {
  std::size_t found = 0;
  each_mapping([&](Address at, std::size_t length, std::size_t accessible) {
    found += length == bytes && accessible == bytes && is_beside_ranges(at);
  });
  return found;
}

std::size_t Kernel::count_reserved() const {
  constexpr std::size_t kLeast = std::size_t{1} << 20;
  std::size_t found = 0;
  each_mapping([&](Address, std::size_t length, std::size_t accessible) {
    found += length >= kLeast && (length & (length - 1)) == 0 && accessible == 0;
  });
  return found;
}

bool Kernel::has_own(Address at, std::size_t bytes) const {
  for (const auto& [begin, range] : ranges_)
    if (begin < at + bytes && range.end > at && !range.foreign) return true;
  return false;
}

bool Kernel::is_foreign(Address at, std::size_t bytes) const {
  for (auto range = ranges_.lower_bound(at); range != ranges_.end() && range->first < at + bytes; ++range)
    if (range->second.foreign) return true;
  return false;
}

bool Kernel::at_limit() { return refuses && ranges_.size() >= most_mappings && (++refusals, true); }

void Kernel::split(Address at) {
  auto range = ranges_.upper_bound(at);
  if (range == ranges_.begin()) return;
  --range;
  if (range->first == at || range->second.end <= at) return;
  Range rest = range->second;
  range->second.end = at;
  ranges_[at] = rest;
}

void Kernel::cut(Address at, std::size_t bytes) {
  split(at);
  split(at + bytes);
  for (auto range = ranges_.lower_bound(at); range != ranges_.end() && range->first < at + bytes;) {
    if (range->second.foreign) complain("what is not the malloc's is unmapped", at, bytes);
    zero(range->first, range->second.end - range->first);
    Address& end = cut_[range->first];
    if (end < range->second.end) end = range->second.end;
    range = ranges_.erase(range);
  }
}

long Kernel::map(Address at, std::size_t bytes, int protection, int flags) {
  if (!is_whole(at, bytes)) return complain("mmap of no whole pages", at, bytes), -EINVAL;
  const bool fixed = (flags & MAP_FIXED) != 0, here = (flags & MAP_FIXED_NOREPLACE) != 0;
  if (bytes > kFarEnd - kFarBegin) return -ENOMEM;
  if (here && !is_free(at, bytes)) return -EEXIST;
  if (refuse() || at_limit()) return -ENOMEM;
  if (fixed) {
    cut(at, bytes);
  } else if (!here) {
    if (bytes > longest) return -ENOMEM;
    at = kWindowEnd;
    for (auto range = ranges_.lower_bound(at);
         range != ranges_.end() && range->first < kEnd && range->first - at < bytes; ++range)
      at = range->second.end;
  }
  if (!is_inside(at, bytes)) return -ENOMEM;
  ranges_[at] = {at + bytes, protection, false, false, calls};
  return static_cast<long>(at);
}

void Kernel::occupy(Address at, std::size_t bytes) {
  if (is_free(at, bytes)) ranges_[at] = {at + bytes, PROT_NONE, false, true, ++calls};
}

long Kernel::unmap(Address at, std::size_t bytes) {
  if (!is_whole(at, bytes) || !is_mapped(at, bytes))
    return complain("munmap of what is not mapped", at, bytes), -EINVAL;
  if (refuse()) return -ENOMEM;
  cut(at, bytes);
  return 0;
}

long Kernel::protect(Address at, std::size_t bytes, int protection) {
  if (!is_whole(at, bytes) || !is_mapped(at, bytes))
    return complain("mprotect of what is not mapped", at, bytes), -ENOMEM;
  if (is_foreign(at, bytes)) complain("mprotect of what is not the malloc's", at, bytes);
  if (refuse() || at_limit()) return -ENOMEM;
  split(at);
  split(at + bytes);
  for (auto range = ranges_.find(at); range != ranges_.end() && range->first < at + bytes; ++range)
    range->second.protection = protection;
  return 0;
}

long Kernel::advise(Address at, std::size_t bytes, int advice) {
  if (!is_inside(at, 0)) return 0;                                     // the library's own tables
  if (advice == MADV_HUGEPAGE || advice == MADV_NOHUGEPAGE) return 0;  // a hint, which may cover what is another's
  if (is_foreign(at, bytes)) complain("madvise of what is not the malloc's", at, bytes);
  if (!is_whole(at, bytes) || !is_mapped(at, bytes))
    return complain("madvise of what is not mapped", at, bytes), -ENOMEM;
  if (refuse()) return advice == kPopulateWrite ? -ENOMEM : -EAGAIN;
  if (advice == MADV_DONTNEED) zero(at, bytes);
  if (advice != kWipeOnFork) return 0;
  split(at);
  split(at + bytes);
  for (auto range = ranges_.find(at); range != ranges_.end() && range->first < at + bytes; ++range)
    range->second.wiped = true;
  return 0;
}

void Kernel::wipe_for_child() {
  for (const auto& [at, range] : ranges_)
    if (range.wiped) zero(at, range.end - at);
}

long Kernel::remap(Address from, std::size_t old_bytes, std::size_t new_bytes, int flags, Address to) {
  if (!is_whole(from, old_bytes) || !is_whole(from, new_bytes) || !is_mapped(from, old_bytes))
    return complain("mremap of what is not mapped", from, old_bytes), -EFAULT;
  if ((flags & MREMAP_FIXED) == 0) {
    if (refuse()) return -ENOMEM;
    if (new_bytes < old_bytes) cut(from + new_bytes, old_bytes - new_bytes);
    if (new_bytes <= old_bytes) return static_cast<long>(from);
    if (!is_free(from + old_bytes, new_bytes - old_bytes) || !is_inside(from, new_bytes)) return -ENOMEM;
    ranges_[from + old_bytes] = {from + new_bytes, PROT_READ | PROT_WRITE, false, false, calls};
    return static_cast<long>(from);
  }
  if (!is_mapped(to, new_bytes)) complain("mremap to what is not mapped", to, new_bytes);
  if (at_limit()) return -ENOMEM;
  cut(to, new_bytes);
  if (refuse()) return -ENOMEM;  // late: the place is gone
  ranges_[to] = {to + new_bytes, PROT_READ | PROT_WRITE, false, false, calls};
  static Address distance;
  distance = to - from;
  each_resident(from, old_bytes, [](Address at) {
    if (!is_zero(at)) memcpy(reinterpret_cast<void*>(at + distance), reinterpret_cast<void*>(at), kRealPage);
    return true;
  });
  zero(from, old_bytes);
  if ((flags & kDontUnmap) == 0) cut(from, old_bytes);
  return static_cast<long>(to);
}

// Whether a page was only read, or written with zeros, does not show.
long Kernel::resident(Address at, std::size_t bytes, unsigned char* out) {
  if (!is_whole(at, bytes) || !is_mapped(at, bytes))
    return complain("mincore of what is not mapped", at, bytes), -ENOMEM;
  memset(out, 0, bytes / page);
  static unsigned char* answer;
  static Address begin;
  answer = out;
  begin = at;
  each_resident(at, bytes, [](Address there) {
    if (!is_zero(there)) answer[(there - begin) / kernel.page] = 1;
    return true;
  });
  return 0;
}

Kernel::Address Kernel::first_filled(Address at, std::size_t bytes) {
  static Address found;
  found = 0;
  each_resident(at, bytes, [](Address there) { return is_zero(there) || (found = there, false); });
  return found;
}

}  // namespace freeway::sim
