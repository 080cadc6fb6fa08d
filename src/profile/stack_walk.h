// SPDX-License-Identifier: MIT
// stack_walk.h: the chain of callers, by frame pointers.
//
// A frame is {address of the caller's frame, return address}. A program that was compiled without frame pointers has
// anything in that register, so nothing is trusted: each frame lies above the one before it, and each page is checked
// before it is read.
#pragma once

#include "arch/frame.h"
#include "base/integers.h"

namespace freeway::profile {

// Room for the longest stack that is kept.
constexpr unsigned kMostFrames = 64;

// Writes return addresses to `out`, from the frame at `frame` upwards, at most `most`. Returns how many. `frame` is a
// live one, whose page can be read. can_read(address): whether the page that begins there may be read. keeps(address):
// whether a return address is to be kept.
template <class CanRead, class Keeps>
unsigned walk_stack(uptr frame, std::size_t page_size, u64* out, unsigned most, CanRead&& can_read, Keeps&& keeps) {
  constexpr u64 kLowestCode = 4096;
  constexpr unsigned kMostLooks = 4 * kMostFrames;
  uptr known = align_down(frame, page_size);
  const auto read = [&](uptr at, u64& word) {
    const uptr page = align_down(at, page_size);
    if (page != known && !can_read(page)) return false;
    known = page;
    word = *reinterpret_cast<const volatile u64*>(at);
    return true;
  };
  unsigned count = 0;
  for (unsigned looks = 0; looks < kMostLooks && count < most; ++looks) {
    u64 next = 0, back = 0;
    if (frame % sizeof(u64) != 0 || !read(frame, next) || !read(frame + sizeof(u64), back)) break;
    back = return_address(back);
    if (back < kLowestCode) break;
    if (keeps(back)) out[count++] = back;
    if (next <= frame) break;
    frame = next;
  }
  return count;
}

}  // namespace freeway::profile
