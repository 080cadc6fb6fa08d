// SPDX-License-Identifier: MIT
// gap.h: the number of bytes between two sampled ones.
//
// Bytes are sampled at random, one in `interval`, each independently: then the gaps are exponential, and the rest of a
// gap has the same distribution as a whole one. So a gap may be begun anywhere, and forgotten anywhere: each CPU has
// one of its own, and a thread that cannot count draws one for a single block.
#pragma once

#include <bit>

#include "base/integers.h"

namespace freeway::profile {

// With this interval every block is sampled, also those of no bytes.
constexpr u64 kEveryBlock = 1;

// The natural logarithm of x > 0 (normal): to 12 digits. The C library's is in another library than libc.
constexpr double natural_log(double x) {
  constexpr double kLn2 = 0.69314718055994530942, kSqrt2 = 1.41421356237309504880;
  constexpr u64 kMantissa = low_bits(52), kOne = u64{1023} << 52;
  const u64 bits = std::bit_cast<u64>(x);
  double exponent = static_cast<double>(static_cast<i64>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & kMantissa) | kOne);  // 1 to 2
  if (m > kSqrt2) m /= 2, exponent += 1;
  const double z = (m - 1) / (m + 1), zz = z * z;  // ln m = 2 artanh z
  double sum = 0;
  for (int n = 15; n >= 1; n -= 2) sum = sum * zz + 1.0 / n;
  return exponent * kLn2 + 2 * z * sum;
}

// The gap for 64 random bits, in bytes, at least 1: a block of n bytes that comes next is sampled if n is not less.
// With kEveryBlock it is 0.
constexpr u64 gap(u64 random, u64 interval) {
  if (interval <= kEveryBlock) return 0;
  constexpr double kUnit = 1.0 / 9007199254740992.0;                       // 2^-53
  const double uniform = static_cast<double>((random >> 11) + 1) * kUnit;  // above 0, up to 1
  const double bytes = -natural_log(uniform) * static_cast<double>(interval);
  constexpr double kMost = 4611686018427387904.0;  // 2^62
  return bytes >= kMost ? u64{1} << 62 : static_cast<u64>(bytes) + 1;
}

// The share of blocks of so many bytes that is sampled: 1 - e^(-bytes / interval).
constexpr double sampled_share(u64 bytes, u64 interval) {
  if (interval <= kEveryBlock) return 1;
  const double x = static_cast<double>(bytes) / static_cast<double>(interval);
  if (x > 50) return 1;
  // 1 - e^-y by its series for a part y that is small enough; then doubled, again and again: 1 - (e^-y)^2 = s (2 - s).
  double y = x;
  int halvings = 0;
  for (; y > 0.25; y /= 2) ++halvings;
  double share = 0;
  for (int n = 12; n >= 1; --n) share = y / n * (1 - share);
  for (; halvings > 0; --halvings) share *= 2 - share;
  return share;
}

}  // namespace freeway::profile
