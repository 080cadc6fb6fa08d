// SPDX-License-Identifier: MIT
// sizes.h: HMalloc's sizes and limits (HMalloc 2020, section 3 and Algorithms 1-2), all in bytes.
//
// Local    a request is rounded up to 16 (the paper: 8) and served from a superblock if it is below half of the current
//          one, so 32 KiB at first and 2 MiB later; else it goes to the OS
// Shared   request + flag area, rounded up to cache lines; below 32 KiB the n-th class has blocks of n + 1 lines, else
//          OS
// Both     a list's first superblock has 64 KiB, each later one 4 MiB
//
// The paper's flag area of 8 bytes makes every block's address 8 modulo 16, which is no address that malloc may return:
// here it has 16. FREEWAY_HMALLOC_PAPER_LAYOUT=1 builds the paper's, for measurements only.
#pragma once

#include "base/integers.h"

#ifndef FREEWAY_HMALLOC_PAPER_LAYOUT
#define FREEWAY_HMALLOC_PAPER_LAYOUT 0
#endif

namespace freeway::hmalloc {

// What the templates are told of sizes; tests and models have smaller ones.
struct PaperSizes {
  static constexpr bool kPaperLayout = FREEWAY_HMALLOC_PAPER_LAYOUT != 0;
  static constexpr std::size_t kFirst = 64 * kKiB;  // a list's first superblock
  static constexpr std::size_t kLater = 4 * kMiB;   // every other
  static constexpr std::size_t kLine = 64;          // "the cache line size is assumed to be 64 bytes"
  static constexpr std::size_t kFlagArea = kPaperLayout ? 8 : 16;
  static constexpr std::size_t kLocalStep = kPaperLayout ? 8 : 16;
  static constexpr std::size_t kSharedLimit = 32 * kKiB;  // Algorithm 2, line 3
  static constexpr u32 kCacheLimit = 100;                 // section 4: length of a block cache list
  static constexpr unsigned kClasses = kSharedLimit / kLine - 1;
};

// Algorithm 1, line 2.
template <class S> constexpr std::size_t local_size(std::size_t request) {
  return align_up(request == 0 ? 1 : request, S::kLocalStep);
}
// Algorithm 1, line 3: whether a size is for superblocks while the current one has `current` bytes.
constexpr bool fits_local(std::size_t size, std::size_t current) { return size < current / 2; }

// Algorithm 2, line 2: the block that holds the request and its flag.
template <class S> constexpr std::size_t shared_size(std::size_t request) {
  return align_up(request + S::kFlagArea, S::kLine);
}
// Algorithm 2, line 3.
template <class S> constexpr bool fits_shared(std::size_t size) { return size < S::kSharedLimit; }
// Algorithm 2, line 4: class 0 is 64 bytes, class 1 is 128, and so on.
template <class S> constexpr unsigned size_to_class(std::size_t size) {
  return static_cast<unsigned>(size / S::kLine) - 1;
}

// The longest shared request.
constexpr std::size_t kMaxShared = PaperSizes::kSharedLimit - PaperSizes::kLine - PaperSizes::kFlagArea;
static_assert(fits_shared<PaperSizes>(shared_size<PaperSizes>(kMaxShared)));
static_assert(!fits_shared<PaperSizes>(shared_size<PaperSizes>(kMaxShared + 1)));
// The longest local request that a superblock ever serves.
constexpr std::size_t kMaxLocal = PaperSizes::kLater / 2 - PaperSizes::kLocalStep;

// What a frame of 64 KiB says of its superblock; superblocks are aligned to their size, so that this finds the header.
enum class Kind : u32 { kLocalFirst = 1, kLocalLater = 2, kSharedFirst = 3, kSharedLater = 4 };
constexpr bool is_kind(u32 value) { return value >= 1 && value <= 4; }
constexpr bool is_local(Kind kind) { return kind <= Kind::kLocalLater; }
constexpr bool is_first(Kind kind) { return kind == Kind::kLocalFirst || kind == Kind::kSharedFirst; }

template <class S> constexpr std::size_t bytes_of(Kind kind) { return is_first(kind) ? S::kFirst : S::kLater; }
// Where the superblock begins that `address` lies in.
template <class S> constexpr uptr superblock_of(uptr address, Kind kind) {
  return align_down(address, bytes_of<S>(kind));
}

}  // namespace freeway::hmalloc
