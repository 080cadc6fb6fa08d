// SPDX-License-Identifier: MIT
#include "tests/support/kernel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace freeway::test {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

void* pointer(uptr address) { return reinterpret_cast<void*>(address); }
uptr round_up(uptr x, std::size_t alignment) { return (x + alignment - 1) / alignment * alignment; }
bool whole_pages(uptr address, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return address % page == 0 && bytes % page == 0 && bytes > 0;
}

}  // namespace

void Kernel::reset() {
  Lock lock(mutex_);
  for (const auto& [start, range] : ranges_) munmap(pointer(start), range.end - start);
  if (pack_at_ != 0) munmap(pointer(pack_at_), pack_end_ - pack_at_);
  ranges_.clear();
  pack_at_ = pack_next_ = pack_end_ = 0;
  chosen_ = false;
  refuse_nothing();
  refused_ = 0;
  for (auto& count : calls_) count = 0;
}

void Kernel::refuse(Call call, std::uint64_t nth, std::uint64_t times) {
  failures_[static_cast<int>(call)] = {nth, times};
}
void Kernel::refuse_any(std::uint64_t nth) { any_countdown_ = nth; }
void Kernel::refuse_nothing() {
  for (auto& failure : failures_) failure = {};
  any_countdown_ = 0;
  refuse_all_ = false;
  most_ = ~std::size_t{0};
}

bool Kernel::refuses(Call call) {
  ++calls_[static_cast<int>(call)];
  bool no = refuse_all_;
  if (any_countdown_ > 0 && --any_countdown_ == 0) no = true;
  Failure& failure = failures_[static_cast<int>(call)];
  if (failure.countdown > 1) {
    --failure.countdown;
  } else if (failure.countdown == 1) {
    no = true;
    if (--failure.times == 0) failure.countdown = 0;
  }
  if (no) ++refused_;
  return no;
}

void Kernel::pack(std::size_t bytes) {
  Lock lock(mutex_);
  void* area = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  pack_at_ = pack_next_ = reinterpret_cast<uptr>(area);
  pack_end_ = pack_at_ + bytes;
}

uptr Kernel::find_room(std::size_t bytes, std::size_t alignment, int protection) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (pack_at_ != 0) {
    const uptr at = round_up(pack_next_, alignment);
    if (at + bytes > pack_end_) return 0;
    if (mmap(pointer(at), bytes, protection, flags | MAP_FIXED, -1, 0) == MAP_FAILED) return 0;
    pack_next_ = at + bytes;
    return at;
  }
  void* area = mmap(nullptr, bytes + alignment, protection, flags, -1, 0);
  if (area == MAP_FAILED) return 0;
  const uptr start = reinterpret_cast<uptr>(area), at = round_up(start, alignment);
  if (at != start) munmap(area, at - start);
  munmap(pointer(at + bytes), start + alignment - at);
  return at;
}

uptr Kernel::make(std::size_t bytes, std::size_t alignment, bool accessible) {
  EXPECT_TRUE(whole_pages(alignment, bytes)) << bytes << " bytes aligned to " << alignment;
  EXPECT_EQ(alignment & (alignment - 1), 0u);
  EXPECT_GE(alignment, 65536u);
  if (bytes > most_) {
    ++refused_;
    return 0;
  }
  const uptr at = find_room(bytes, alignment, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
  if (at != 0) set(at, bytes, accessible, ++mappings_);
  return at;
}

uptr Kernel::reserve(std::size_t bytes, std::size_t alignment) {
  Lock lock(mutex_);
  return refuses(Call::kReserve) ? 0 : make(bytes, alignment, false);
}

// A place is one where nothing is now; nobody but the test maps anything there.
Space Kernel::space(std::size_t bytes, std::size_t alignment) {
  Lock lock(mutex_);
  if (!chosen_) return {reserve(bytes, alignment), true};
  if (refuses(Call::kReserve)) return {};
  const uptr at = find_room(bytes, alignment, PROT_NONE);
  if (at != 0) munmap(pointer(at), bytes);
  return {at};
}

bool Kernel::is_free(uptr address, std::size_t bytes) const {
  const auto after = ranges_.lower_bound(address + bytes);
  return after == ranges_.begin() || std::prev(after)->second.end <= address;
}

Extended Kernel::extend(uptr address, std::size_t bytes) {
  Lock lock(mutex_);
  EXPECT_TRUE(whole_pages(address, bytes)) << "a piece of " << bytes << " bytes at " << std::hex << address;
  if (refuses(Call::kExtend)) return Extended::kRefused;
  if (!is_free(address, bytes)) return Extended::kOccupied;
  void* at = mmap(pointer(address), bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != pointer(address)) {  // something of this process's has got there
    if (at != MAP_FAILED) munmap(at, bytes);
    return Extended::kOccupied;
  }
  set(address, bytes, true, ++mappings_);
  return Extended::kDone;
}

void Kernel::occupy(uptr address, std::size_t bytes) {
  Lock lock(mutex_);
  ASSERT_TRUE(is_free(address, bytes));
  void* at = mmap(pointer(address), bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(at, pointer(address));
  set(address, bytes, true, ++mappings_);
}

uptr Kernel::map(std::size_t bytes, std::size_t alignment) {
  Lock lock(mutex_);
  return refuses(Call::kMap) ? 0 : make(bytes, alignment, true);
}

bool Kernel::commit(uptr address, std::size_t bytes) {
  Lock lock(mutex_);
  EXPECT_TRUE(whole_pages(address, bytes)) << "commit of " << bytes << " bytes at " << std::hex << address;
  EXPECT_TRUE(in_one_mapping(address, bytes)) << "commit of " << bytes << " bytes at " << std::hex << address;
  if (refuses(Call::kCommit) || mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE) != 0) return false;
  set(address, bytes, true, std::prev(ranges_.upper_bound(address))->second.mapping);
  return true;
}

bool Kernel::forbid(uptr address, std::size_t bytes) {
  Lock lock(mutex_);
  EXPECT_TRUE(whole_pages(address, bytes)) << "forbid of " << bytes << " bytes at " << std::hex << address;
  EXPECT_TRUE(in_one_mapping(address, bytes)) << "forbid of " << bytes << " bytes at " << std::hex << address;
  if (refuses(Call::kForbid) || mprotect(pointer(address), bytes, PROT_NONE) != 0) return false;
  set(address, bytes, false, std::prev(ranges_.upper_bound(address))->second.mapping);
  return true;
}

bool Kernel::purge(uptr address, std::size_t bytes) {
  Lock lock(mutex_);
  EXPECT_TRUE(whole_pages(address, bytes)) << "purge of " << bytes << " bytes at " << std::hex << address;
  EXPECT_TRUE(is_mapped(address, bytes)) << "purge of " << bytes << " bytes at " << std::hex << address;
  return !refuses(Call::kPurge) && madvise(pointer(address), bytes, MADV_DONTNEED) == 0;
}

std::size_t Kernel::resident(uptr address, std::size_t bytes) {
  Lock lock(mutex_);
  EXPECT_TRUE(whole_pages(address, bytes)) << "resident of " << bytes << " bytes at " << std::hex << address;
  EXPECT_TRUE(is_mapped(address, bytes)) << "resident of " << bytes << " bytes at " << std::hex << address;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(bytes / page);
  if (mincore(pointer(address), bytes, pages.data()) != 0) return bytes;
  std::size_t backed = 0;
  for (unsigned char flags : pages) backed += (flags & 1) * page;
  return backed;
}

bool Kernel::release(uptr address, std::size_t bytes) {
  Lock lock(mutex_);
  EXPECT_TRUE(ends_mapping(address, bytes)) << "release of " << bytes << " bytes at " << std::hex << address;
  if (refuses(Call::kRelease) || munmap(pointer(address), bytes) != 0) return false;
  remove(address, bytes);
  keep_packed(address, bytes);
  return true;
}

bool Kernel::move(uptr from, std::size_t old_bytes, uptr to, std::size_t new_bytes) {
  Lock lock(mutex_);
  EXPECT_TRUE(whole_pages(from, new_bytes));
  EXPECT_TRUE(is_whole_mapping(from, old_bytes)) << "move of a part";
  EXPECT_TRUE(is_whole_mapping(to, new_bytes)) << "move to something else than a reservation made for it";
  if (refuses(Call::kMove)) {  // as kernels do that find out late
    munmap(pointer(to), new_bytes);
    remove(to, new_bytes);
    keep_packed(to, new_bytes);
    return false;
  }
  if (mremap(pointer(from), old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) return false;
  remove(from, old_bytes);
  keep_packed(from, old_bytes);
  set(to, new_bytes, true, ++mappings_);
  return true;
}

bool Kernel::move_out(uptr from, std::size_t bytes, uptr to) {
  Lock lock(mutex_);
  EXPECT_TRUE(whole_pages(from, bytes));
  EXPECT_TRUE(is_accessible(from, bytes)) << "move of what is not accessible";
  EXPECT_TRUE(is_whole_mapping(to, bytes)) << "move to something else than a reservation made for it";
  if (refuses(Call::kMoveOut)) {
    munmap(pointer(to), bytes);
    remove(to, bytes);
    keep_packed(to, bytes);
    return false;
  }
  const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | 4 /* MREMAP_DONTUNMAP */;
  if (mremap(pointer(from), bytes, bytes, flags, to) == MAP_FAILED) {  // emulators, Linux before 5.7
    mprotect(pointer(to), bytes, PROT_READ | PROT_WRITE);
    std::memcpy(pointer(to), pointer(from), bytes);
    madvise(pointer(from), bytes, MADV_DONTNEED);
  }
  set(to, bytes, true, ++mappings_);
  return true;
}

bool Kernel::resize(uptr address, std::size_t old_bytes, std::size_t new_bytes) {
  Lock lock(mutex_);
  EXPECT_TRUE(whole_pages(address, new_bytes));
  EXPECT_TRUE(is_whole_mapping(address, old_bytes)) << "resize of a part";
  if (refuses(Call::kResize) || mremap(pointer(address), old_bytes, new_bytes, 0) == MAP_FAILED) return false;
  remove(address, old_bytes);
  set(address, new_bytes, true, ++mappings_);
  return true;
}

// What was released within the packed area must not go to somebody else: reset() ends all of it.
void Kernel::keep_packed(uptr address, std::size_t bytes) {
  if (address < pack_at_ || address >= pack_end_) return;
  mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// Forgets [address, address + bytes), cutting what reaches beyond it.
void Kernel::remove(uptr address, std::size_t bytes) {
  const uptr end = address + bytes;
  for (auto at = ranges_.begin(); at != ranges_.end();) {
    const auto [start, range] = *at;
    if (range.end <= address || start >= end) {
      ++at;
      continue;
    }
    at = ranges_.erase(at);
    if (start < address) ranges_[start] = {address, range.accessible, range.mapping};
    if (range.end > end) ranges_[end] = range;
  }
}

void Kernel::set(uptr address, std::size_t bytes, bool accessible, unsigned mapping) {
  remove(address, bytes);
  auto here = ranges_.emplace(address, Range{address + bytes, accessible, mapping}).first;
  auto joins = [](auto low, auto high) {
    return low->second.end == high->first && low->second.accessible == high->second.accessible &&
           low->second.mapping == high->second.mapping;
  };
  if (auto next = std::next(here); next != ranges_.end() && joins(here, next)) {
    here->second.end = next->second.end;
    ranges_.erase(next);
  }
  if (here != ranges_.begin() && joins(std::prev(here), here)) {
    std::prev(here)->second.end = here->second.end;
    ranges_.erase(here);
  }
}

bool Kernel::in_one_mapping(uptr address, std::size_t bytes) const {
  auto at = ranges_.upper_bound(address);
  if (at == ranges_.begin()) return false;
  const unsigned mapping = (--at)->second.mapping;
  for (uptr reached = address; reached < address + bytes; reached = (at++)->second.end)
    if (at == ranges_.end() || at->second.mapping != mapping || at->first > reached || at->second.end <= reached)
      return false;
  return true;
}

// By one mapping, or by several side by side.
bool Kernel::is_mapped(uptr address, std::size_t bytes) const {
  auto at = ranges_.upper_bound(address);
  if (at == ranges_.begin()) return false;
  --at;
  for (uptr reached = address; reached < address + bytes; reached = (at++)->second.end)
    if (at == ranges_.end() || at->first > reached || at->second.end <= reached) return false;
  return true;
}

bool Kernel::ends_mapping(uptr address, std::size_t bytes) const {
  if (!in_one_mapping(address, bytes)) return false;
  const auto end = std::prev(ranges_.lower_bound(address + bytes));
  const auto after = std::next(end);
  return end->second.end == address + bytes && (after == ranges_.end() || after->second.mapping != end->second.mapping);
}

bool Kernel::is_whole_mapping(uptr address, std::size_t bytes) const {
  const auto first = ranges_.find(address);
  if (first == ranges_.end() || !ends_mapping(address, bytes)) return false;
  return first == ranges_.begin() || std::prev(first)->second.mapping != first->second.mapping;
}

std::size_t Kernel::mapped_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [start, range] : ranges_) bytes += range.end - start;
  return bytes;
}

std::size_t Kernel::accessible_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [start, range] : ranges_)
    if (range.accessible) bytes += range.end - start;
  return bytes;
}

bool Kernel::is_accessible(uptr address, std::size_t bytes) const {
  if (!is_mapped(address, bytes)) return false;
  for (auto at = std::prev(ranges_.upper_bound(address)); at != ranges_.end() && at->first < address + bytes; ++at)
    if (!at->second.accessible) return false;
  return true;
}

}  // namespace freeway::test
