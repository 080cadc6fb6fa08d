// SPDX-License-Identifier: MIT
// random.h: numbers that nobody outside of the process can predict.
//
// Random    a keyed hash (SipHash's rounds, one before and three behind: Aumasson, Bernstein 2012) of a counter. Its
//           outputs, without the key, do not tell the next one
// Words     key: two words from the kernel, new in each life of the process (sync/lives.h), so the children of a fork
//           go ways of their own. life: the life that the key belongs to. count: one up each time
// Moves     key: stored by a thread that finds another `life`; several at once leave words of one or the other: a key,
//           too
// Who       any thread, any signal handler, the child of any fork
// Orders    [R1] life comes after the key; [A1] a thread that sees the life sees a key of it, or of a later one
// Progress  wait-free       Lost if killed: nothing
// Kernels before 4.14 do not tell of forks: there a child continues its parent's sequence
// Checked   tests/os/random_test.cc
#pragma once

#include "base/integers.h"
#include "os/window.h"

namespace freeway {

namespace random {

// 64 bits from the kernel, without waiting; the same (0) in each run if the process asks for that (ADDR_NO_RANDOMIZE).
u64 kernel_bits();

constexpr u64 rotate(u64 x, unsigned by) { return x << (by & 63) | x >> (-by & 63); }

// SipHash-1-3 of one word.
constexpr u64 hash(u64 key0, u64 key1, u64 word) {
  u64 a = key0 ^ 0x736f6d6570736575u, b = key1 ^ 0x646f72616e646f6du, c = key0 ^ 0x6c7967656e657261u,
      d = key1 ^ 0x7465646279746573u;
  const auto round = [&] {
    a += b, c += d, b = rotate(b, 13) ^ a, d = rotate(d, 16) ^ c, a = rotate(a, 32);
    c += b, a += d, b = rotate(b, 17) ^ c, d = rotate(d, 21) ^ a, c = rotate(c, 32);
  };
  const u64 length = u64{8} << 56;
  d ^= word, round(), a ^= word;
  d ^= length, round(), a ^= length;
  c ^= 0xff, round(), round(), round();
  return a ^ b ^ c ^ d;
}

// The random bits of one batch, from one such number, and as hard to predict as that number.
class Stream {
 public:
  explicit constexpr Stream(u64 seed) : state_(seed) {}
  constexpr u64 next() {
    const u64 before = state_;
    state_ += window::kStep;
    return window::mixed(before);
  }
  // A number below `bound` (1 to 2^32), each as likely as the others but for 2^-32.
  constexpr u32 below(u64 bound) { return static_cast<u32>((next() >> 32) * bound >> 32); }
  // `n` of the bits that are set in `bits`, which has more.
  constexpr u64 some_of(u64 bits, unsigned n) {
    const unsigned by = below(64);
    return rotate(lowest_set_bits(rotate(bits, by), n), 64 - by);
  }

 private:
  u64 state_;
};

}  // namespace random

template <class Env> class Random {
 public:
  // `life`: a number that differs in each life of the process.
  random::Stream stream(u64 life) {
    if (life_.load_acquire() != life + 1) renew(life);  // [A1] pairs with [R1]
    return random::Stream(random::hash(key_[0].load_relaxed(), key_[1].load_relaxed(), count_.fetch_add_relaxed(1)));
  }

 private:
  void renew(u64 life) {
    for (auto& word : key_) word.store_relaxed(word.load_relaxed() + random::kernel_bits());
    Env::step("random.renewed");
    life_.store_release(life + 1);  // [R1] pairs with [A1]
  }

  typename Env::template Atomic<u64> key_[2];
  typename Env::template Atomic<u64> life_;
  typename Env::template Atomic<u64> count_;
};

}  // namespace freeway
