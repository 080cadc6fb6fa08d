// SPDX-License-Identifier: MIT
// shapes.h: how long the slices of each size class are, computed by the compiler.
//
// A region is one frame: 62 units of 1 KiB (its cell has room for no more), of which slices are cut. The first slice of a class
// in a heap, on a CPU, is short, so that a heap of few blocks fits into one region; the next are longer, so that they last.
#pragma once

#include <array>

#include "heap/strip.h"
#include "size/size_classes.h"

namespace freeway::heap {

constexpr unsigned kUnitShift = 10;
constexpr std::size_t kUnitSize = std::size_t{1} << kUnitShift;
constexpr unsigned kUnits = cell::kItems;
// The largest alignment in bytes that every block has whose size it divides: slices begin at units.
constexpr std::size_t kMaxNatural = kUnitSize;

// Blocks of class `c` in so many units.
constexpr u32 blocks_in(unsigned c, unsigned units) {
  return c == 0 ? 0 : static_cast<u32>(clamp(units * kUnitSize / kSizeClasses[c].size, 0, cell::kItems));
}

constexpr unsigned units_for(unsigned c, u32 blocks) {
  return static_cast<unsigned>(ceil_div(u64{blocks} * kSizeClasses[c].size, kUnitSize));
}

constexpr unsigned first_units(unsigned c) {
  const u32 size = kSizeClasses[c].size;
  return units_for(c, size <= 128 ? 8 : size <= kKiB ? 4 : size <= 4 * kKiB ? 2 : 1);
}
constexpr unsigned next_units(unsigned c) {
  const u32 size = kSizeClasses[c].size;
  return units_for(c, static_cast<u32>(clamp(16 * kKiB / size, blocks_in(c, first_units(c)), cell::kItems)));
}

// Strips are half a region, then a whole one; no more than about half a MiB of a heap on a CPU: what grows beyond that lives for
// long, and slices find its free blocks faster. Larger blocks would leave too much of a strip's end unused.
constexpr u32 kMostStrips = 10;
constexpr unsigned units_of_strip(u32 number) { return number < 2 ? kUnits / 2 : kUnits; }
constexpr std::size_t bytes_of_strip(unsigned units) { return units * kUnitSize; }
constexpr bool has_strips(unsigned c) { return c != 0 && kSizeClasses[c].size <= 2 * kKiB; }
static_assert(bytes_of_strip(kUnits) / strip::kGranule <= strip::kCount);

struct Shape {
  u8 first, next;  // units
};

constexpr std::array<Shape, kClassCount> make_shapes() {
  std::array<Shape, kClassCount> shapes{};
  for (unsigned c = 1; c < kClassCount; ++c)
    shapes[c] = {static_cast<u8>(first_units(c)), static_cast<u8>(next_units(c))};
  return shapes;
}

inline constexpr std::array<Shape, kClassCount> kShapes = make_shapes();

}  // namespace freeway::heap
