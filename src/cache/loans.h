// SPDX-License-Identifier: MIT
// loans.h: the first few blocks of a size class are blocks of a larger one.
//
// A small process has a few blocks of each of many sizes, and each class's first block touches a page of a superblock
// and lines of a magazine. So a class whose size is no power of two begins with blocks of the next one that is, until
// that has cost kMostLost bytes; then it has superblocks of its own. (Blocks of up to 64 bytes are many everywhere.)
//
// Word      lost[c]: bytes that class c's requests have lost inside larger blocks; only grows, up to kMostLost
// Moves     serve: lost += what this block loses (CAS; the class's own where another thread was first)
//           end: lost = kMostLost; of class 0, which is none: all have ended
// Who       any thread, any signal handler; off the fast path, whose magazine of class c is empty meanwhile
// Keeps     a block of a power of two is aligned to all that a smaller class is (class_of_aligned)
// Progress  wait-free       Lost if killed: nothing
// Checked   tests/cache/loans_test.cc
#pragma once

#include <array>

#include "size/size_classes.h"

namespace freeway {

namespace loans {

constexpr u32 kMostLost = kKiB;
constexpr u32 kLeastSize = 64, kMostSize = 4 * kKiB;  // smaller and larger blocks are not lent

// The class that lends to each class; itself if none does.
constexpr std::array<u8, kClassCount> make_lenders() {
  std::array<u8, kClassCount> lenders{};
  for (unsigned c = 1; c < kClassCount; ++c) {
    const u32 size = kSizeClasses[c].size;
    const bool borrows = size > kLeastSize && size <= kMostSize;
    lenders[c] = static_cast<u8>(borrows ? class_of_size(std::size_t{1} << (log2_floor(size - 1) + 1)) : c);
  }
  return lenders;
}
inline constexpr std::array<u8, kClassCount> kLenders = make_lenders();

// What a block costs.
constexpr u32 cost_of(unsigned c) { return kSizeClasses[kLenders[c]].size - kSizeClasses[c].size; }

// Whether blocks of class `lender` are lent to class `c`: some would cost too much from the first on.
constexpr bool lends(unsigned lender, unsigned c) { return kLenders[c] == lender && cost_of(c) <= kMostLost; }

}  // namespace loans

template <class Env> class Loans {
 public:
  // The class whose block a request of class `c` gets.
  unsigned serve(unsigned c) {
    const u32 cost = loans::cost_of(c);
    u32 lost = lost_[c].load_relaxed();
    if (cost == 0 || lost + cost > loans::kMostLost) return c;
    Env::step("loans.seen");
    return lost_[c].cas_relaxed(lost, lost + cost) ? loans::kLenders[c] : c;
  }

  // From now on class `c` gets its own.
  void end(unsigned c) { lost_[c].store_relaxed(loans::kMostLost); }
  void end_all() {
    if (lost_[0].load_relaxed() != 0) return;
    for (unsigned c = kClassCount; c-- > 0;) end(c);
  }

 private:
  typename Env::template Atomic<u32> lost_[kClassCount];
};

}  // namespace freeway
