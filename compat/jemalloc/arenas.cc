// SPDX-License-Identifier: MIT
#include "arenas.h"

#include <atomic>
#include <bit>
#include <cstdint>

namespace freeway_jemalloc {
namespace {

constexpr unsigned kWordBits = 64;
constexpr unsigned kWords = kAllArenas / kWordBits;

constinit std::atomic<std::uint64_t> g_numbers[kWords] = {std::uint64_t{1}};  // arena 0 is always there

std::uint64_t bit_of(std::size_t number) { return std::uint64_t{1} << number % kWordBits; }

}  // namespace

unsigned create_arena() {
  for (unsigned number = 1; number <= kMostArenas; ++number) {
    const std::uint64_t bit = bit_of(number);
    std::atomic<std::uint64_t>& word = g_numbers[number / kWordBits];
    if ((word.load(std::memory_order_relaxed) & bit) != 0) continue;
    if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0) return number;
  }
  return 0;
}

bool destroy_arena(std::size_t number) {
  if (number == 0 || number > kMostArenas) return false;
  const std::uint64_t bit = bit_of(number);
  return (g_numbers[number / kWordBits].fetch_and(~bit, std::memory_order_relaxed) & bit) != 0;
}

bool is_arena(std::size_t number) {
  return number <= kMostArenas && (g_numbers[number / kWordBits].load(std::memory_order_relaxed) & bit_of(number)) != 0;
}

unsigned arena_count() {
  for (unsigned i = kWords; i-- > 0;)
    if (const std::uint64_t word = g_numbers[i].load(std::memory_order_relaxed); word != 0)
      return i * kWordBits + kWordBits - static_cast<unsigned>(std::countl_zero(word));
  return 1;
}

}  // namespace freeway_jemalloc
