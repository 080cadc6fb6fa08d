// SPDX-License-Identifier: MIT
// size_classes.h: Streamflow's object classes and the sizes of their page blocks (section 3.1.1).
//
// Up to 2 KiB classes step evenly: 4 bytes in the paper, 16 here, because malloc's blocks are aligned to 16. A page
// block is "large enough for 1024 objects", at least 16 and at most 256 KiB, rounded to the nearest power of two (of
// two equally near ones the larger).
// Above, the paper's objects are large and the OS's. Ours up to 32 KiB are in page blocks of 256 KiB, too, four classes
// for each doubling: a mapping is whole frames of 64 KiB, so that one of 3,000 bytes took 21 times its address space.
#pragma once

#include <array>

#include "papers/streamflow/build.h"

namespace freeway::streamflow {

constexpr std::size_t kMaxFine = 2 * kKiB;     // the paper's small objects
constexpr std::size_t kMaxObject = 32 * kKiB;  // with its header
constexpr unsigned kStepsADoubling = 4;
constexpr std::size_t kMinPageBlock = 16 * kKiB;  // also the leaf of the page manager's buddy
constexpr std::size_t kMaxPageBlock = 256 * kKiB;
constexpr unsigned kPageBlockOrders = 5;  // 16, 32, 64, 128, 256 KiB
constexpr std::size_t kObjectsWanted = 1024;
constexpr u32 kPageBlockHeader = 128;  // bytes: see page_block.h

constexpr std::size_t page_block_bytes(unsigned order) { return kMinPageBlock << order; }

constexpr u64 nearest_power_of_two(u64 x) {
  const u64 below = u64{1} << log2_floor(x);
  return x - below < 2 * below - x ? below : 2 * below;
}

// The order (16 KiB << order) of the page blocks for objects of `stride` bytes.
constexpr unsigned page_block_order(u64 stride) {
  const u64 bytes = clamp(nearest_power_of_two(stride * kObjectsWanted), kMinPageBlock, kMaxPageBlock);
  return log2_floor(bytes / kMinPageBlock);
}

struct ObjectClass {
  u32 stride;  // bytes from one object to the next, its header included
  u32 usable;  // bytes of the object that the program may use
  u32 first;   // offset of the first object in its page block; its header, if any, is before that
  u32 limit;   // offset of the object behind the last one
  u32 magic;   // (distance * magic) >> 32 == distance / stride for every distance in a page block
  u32 order;

  constexpr u32 objects() const { return (limit - first) / stride; }
};

template <Build kWhich> struct SizeClasses {
  // 1 … kFineClasses step evenly, those behind them by quarters of the power of two below.
  static constexpr unsigned kFineClasses =
      static_cast<unsigned>(ceil_div(kMaxFine + kWhich.object_header, kWhich.class_step));
  static constexpr unsigned kClasses = kFineClasses + kStepsADoubling * log2_floor(kMaxObject / kMaxFine);
  static constexpr std::size_t kMostBytes = kMaxObject - kWhich.object_header;

  // 1 … kClasses, of up to kMostBytes; a request of 0 bytes gets an object too.
  static constexpr unsigned class_of(std::size_t bytes) {
    const std::size_t needed = bytes + (bytes == 0) + kWhich.object_header;
    const auto fine = static_cast<unsigned>((needed + kWhich.class_step - 1) / kWhich.class_step);
    return fine <= kFineClasses ? fine : coarse_class_of(needed);
  }
  static constexpr unsigned coarse_class_of(std::size_t needed) {
    const unsigned doubling = log2_floor(needed - 1) - log2_floor(kMaxFine);
    const std::size_t below = kMaxFine << doubling;
    const std::size_t steps = ceil_div(needed - below, below / kStepsADoubling);
    return kFineClasses + doubling * kStepsADoubling + static_cast<unsigned>(steps);
  }

  static constexpr u32 stride_of(unsigned c) {
    if (c <= kFineClasses) return c * kWhich.class_step;
    const unsigned doubling = (c - kFineClasses - 1) / kStepsADoubling;
    const unsigned steps = (c - kFineClasses - 1) % kStepsADoubling + 1;
    const u32 below = u32{kMaxFine} << doubling;
    return below + below / kStepsADoubling * steps;
  }

  static constexpr ObjectClass make(unsigned c) {
    ObjectClass k{};
    k.stride = stride_of(c);
    k.usable = k.stride - kWhich.object_header;
    // The first object is aligned; its header lies in a slot of its own.
    k.first = kPageBlockHeader + (kWhich.object_header != 0 ? kWhich.class_step : 0);
    k.order = page_block_order(k.stride);
    const u64 room = page_block_bytes(k.order) - k.first + kWhich.object_header;
    k.limit = k.first + static_cast<u32>(room / k.stride) * k.stride;
    k.magic = static_cast<u32>(((u64{1} << 32) + k.stride - 1) / k.stride);
    return k;
  }

  static constexpr std::array<ObjectClass, kClasses + 1> make_all() {
    std::array<ObjectClass, kClasses + 1> all{};
    for (unsigned c = 1; c <= kClasses; ++c) all[c] = make(c);
    return all;
  }
  static constexpr std::array<ObjectClass, kClasses + 1> kAll = make_all();
};

}  // namespace freeway::streamflow
