// SPDX-License-Identifier: MIT
// integers.h: integer helpers, all constexpr, none with a precondition that is not written beside it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace freeway {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;
using uptr = std::uintptr_t;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kGiB = 1024 * kMiB;

constexpr bool is_power_of_two(u64 x) { return x != 0 && (x & (x - 1)) == 0; }

// `alignment` is a power of two; the sum must not overflow.
constexpr u64 align_up(u64 x, u64 alignment) { return (x + alignment - 1) & ~(alignment - 1); }
constexpr u64 align_down(u64 x, u64 alignment) { return x & ~(alignment - 1); }

constexpr u64 ceil_div(u64 x, u64 divisor) { return (x + divisor - 1) / divisor; }

// Floor of the logarithm; x > 0.
constexpr unsigned log2_floor(u64 x) { return 63u - static_cast<unsigned>(__builtin_clzll(x)); }
constexpr unsigned log2_ceil(u64 x) { return x <= 1 ? 0u : log2_floor(x - 1) + 1; }

// The lowest n bits set, 0 <= n <= 64.
constexpr u64 low_bits(unsigned n) { return n >= 64 ? ~u64{0} : (u64{1} << n) - 1; }

constexpr unsigned lowest_bit(u64 x) { return static_cast<unsigned>(__builtin_ctzll(x)); }  // x != 0
// How many bits are set. Written out: without -mpopcnt the builtin is a call into libgcc.
constexpr unsigned popcount(u64 x) {
  x -= (x >> 1) & 0x5555555555555555;
  x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return static_cast<unsigned>((x * 0x0101010101010101) >> 56);
}

// The lowest n of the bits that are set in x (all of them if there are fewer).
constexpr u64 lowest_set_bits(u64 x, unsigned n) {
  if (n >= 64) return x;
  constexpr u64 kOnes = 0x0101010101010101, kHighs = kOnes << 7;
  const u64 pairs = x - ((x >> 1) & 0x5555555555555555);
  const u64 nibbles = (pairs & 0x3333333333333333) + ((pairs >> 2) & 0x3333333333333333);
  const u64 sums = ((nibbles + (nibbles >> 4)) & 0x0f0f0f0f0f0f0f0f) * kOnes;  // byte i: bits set in bytes 0 … i
  // A byte's highest bit stays where the sum is at most n: there all of the byte's bits belong to the lowest n.
  const u64 whole = ((n * kOnes | kHighs) - sums) & kHighs;
  if (whole == kHighs) return x;
  const unsigned below = lowest_bit(~whole & kHighs) - 7;  // bits of the whole bytes
  u64 rest = x >> below << below;
  for (u64 left = n - ((sums << 8) >> below & 0xff); left > 0; --left) rest &= rest - 1;
  return x & ~rest;
}

constexpr u64 clamp(u64 x, u64 low, u64 high) { return x < low ? low : x > high ? high : x; }

}  // namespace freeway
