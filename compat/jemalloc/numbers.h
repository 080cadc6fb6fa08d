// SPDX-License-Identifier: MIT
// numbers.h: numbers that programs may ask for and give back, of arenas and caches that mean nothing here.
//
// Word      words_[i]: a bit for each number that was given out
// Moves     create: 0 -> 1 (fetch_or)   destroy: 1 -> 0 (fetch_and). Nothing else depends on them, so all is relaxed
// Progress  wait-free. Lost if killed: a number
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace freeway_jemalloc {

// Numbers 0 … kCount - 1, of which those below `first` are given out for ever.
template <unsigned kCount> class Numbers {
 public:
  static constexpr unsigned kNone = kCount;

  constexpr explicit Numbers(unsigned first) : first_(first), words_{(std::uint64_t{1} << first) - 1} {}

  // The lowest that is free; kNone: there is none.
  unsigned create() {
    for (unsigned number = first_; number < kCount; ++number) {
      const std::uint64_t bit = bit_of(number);
      std::atomic<std::uint64_t>& word = words_[number / kWordBits];
      if ((word.load(std::memory_order_relaxed) & bit) != 0) continue;
      if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0) return number;
    }
    return kNone;
  }
  // False if `number` was not given out.
  bool destroy(std::size_t number) {
    if (number < first_ || number >= kCount) return false;
    const std::uint64_t bit = bit_of(number);
    return (words_[number / kWordBits].fetch_and(~bit, std::memory_order_relaxed) & bit) != 0;
  }

  bool has(std::size_t number) const {
    return number < kCount && (words_[number / kWordBits].load(std::memory_order_relaxed) & bit_of(number)) != 0;
  }
  // The largest number that is given out, and one.
  unsigned end() const {
    for (unsigned i = kWords; i-- > 0;)
      if (const std::uint64_t word = words_[i].load(std::memory_order_relaxed); word != 0)
        return i * kWordBits + kWordBits - static_cast<unsigned>(std::countl_zero(word));
    return 0;
  }

 private:
  static constexpr unsigned kWordBits = 64;
  static constexpr unsigned kWords = kCount / kWordBits;
  static_assert(kCount % kWordBits == 0);
  static std::uint64_t bit_of(std::size_t number) { return std::uint64_t{1} << number % kWordBits; }

  const unsigned first_;
  std::atomic<std::uint64_t> words_[kWords];
};

}  // namespace freeway_jemalloc
