// SPDX-License-Identifier: MIT
// StackCopies: pieces of stacks of programs without frame pointers, to be unwound afterwards: one for each site that
// needs it.
//
// Words     taken: up one for each copy. The copy's words: stored by the thread that took it, before others know its
//           number (sites.h, set_copy)
// Progress  wait-free       Lost if killed: the copy in hand
#pragma once

#include "arch/registers.h"
#include "base/integers.h"

namespace freeway {
struct Describe;
}

namespace freeway::profile {

template <class Env> class StackCopies {
 public:
  static constexpr u32 kNone = ~u32{0};
  // Of `count` copies of `piece` bytes (a multiple of 8).
  static constexpr std::size_t bytes(u32 count, std::size_t piece) { return count * (kHead + piece); }

  // Once (or again with the same): zeroed memory of bytes(count, piece).
  void init(uptr memory, u32 count, std::size_t piece) {
    memory_.store_relaxed(memory);
    piece_.store_relaxed(piece);
    count_.store_relaxed(count);
  }
  bool is_on() const { return count_.load_relaxed() != 0; }
  std::size_t piece() const { return piece_.load_relaxed(); }

  // Copies the stack from `registers`' stack pointer up to `end`, as much as a piece holds; kNone: no more room.
  u32 add(const Registers& registers, uptr from, uptr end) {
    if (taken_.load_relaxed() >= count_.load_relaxed()) return kNone;
    const u32 number = taken_.fetch_add_relaxed(1);
    if (number >= count_.load_relaxed()) return kNone;
    Word* word = words_of(number);
    const std::size_t bytes = clamp(end - from, 0, piece());
    word[0].store_relaxed(bytes);
    for (unsigned i = 0; i < Registers::kCount; ++i) word[1 + i].store_relaxed(registers.values[i]);
    for (std::size_t at = 0; at < bytes; at += 8)
      word[kHead / 8 + at / 8].store_relaxed(*reinterpret_cast<const volatile u64*>(from + at));
    return number;
  }

  // Of a copy whose number was published.
  std::size_t length(u32 number) const { return words_of(number)[0].load_relaxed(); }
  u64 register_of(u32 number, unsigned i) const { return words_of(number)[1 + i].load_relaxed(); }
  u64 word(u32 number, std::size_t at) const { return words_of(number)[kHead / 8 + at / 8].load_relaxed(); }

 private:
  friend struct freeway::Describe;  // malloc/describe.cc
  using Word = typename Env::template Atomic<u64>;
  static constexpr std::size_t kHead = align_up(u64{1 + Registers::kCount} * 8, 64);

  Word* words_of(u32 number) const {
    return reinterpret_cast<Word*>(memory_.load_relaxed() + number * (kHead + piece()));
  }

  typename Env::template Atomic<uptr> memory_;
  typename Env::template Atomic<std::size_t> piece_;
  typename Env::template Atomic<u32> count_, taken_;
};

}  // namespace freeway::profile
