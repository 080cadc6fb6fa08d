// SPDX-License-Identifier: MIT
// window.h: the addresses that Freeway asks for: a part of the address space where the kernel puts nothing by itself.
//
// Of 2^bits bytes of address space the kernel fills the top (stack, libraries, mappings, downwards), the part from a
// third or a quarter upwards if it maps bottom-up, the part from two thirds on (programs), and the bottom (programs
// that cannot be moved). The address sanitizer's shadow ends at an eighth; Java's coloured pointers lie below 20 TiB.
// Free of all of them: 5/32 to 8/32. The window is a third of that, at a random multiple of 4 MiB.
//
// Nothing is mapped for the window. It has 1/8 for small mappings (slabs, page map), then 3/4 for ranges that grow
// (metadata, arenas), then 1/8 for large mappings (huge blocks). Small mappings go downwards, ranges upwards from the
// place where the two parts meet, which is no multiple of 2 MiB: what every process has there shares its page tables.
#pragma once

#include "base/space.h"

namespace freeway::window {

constexpr std::size_t kGranule = 4 * kMiB;
constexpr unsigned kLeastBits = 36, kMostBits = 48;

constexpr std::size_t bytes(unsigned bits) { return std::size_t{1} << (bits - 5); }

// Bits of user addresses, given one near the top of them (the stack's).
constexpr unsigned address_bits(uptr stack) {
  return static_cast<unsigned>(clamp(log2_floor(stack | 1) + 1, 0, kMostBits));
}

// The window's start; `bits` from kLeastBits to kMostBits.
constexpr uptr base(unsigned bits, u64 random) {
  const std::size_t places = 2 * bytes(bits) / kGranule + 1;
  return 5 * bytes(bits) + random % places * kGranule;
}

enum class Part { kSmall, kRanges, kLarge };
constexpr std::size_t kSmallAlignment = kMiB;  // the most that a small mapping may ask for
constexpr std::size_t part_end(Part part, unsigned bits) {
  if (part == Part::kSmall) return bytes(bits) / 8 + kMiB;
  return bytes(bits) / 8 * (part == Part::kRanges ? 7 : 8);
}
constexpr std::size_t part_begin(Part part, unsigned bits) {
  if (part == Part::kSmall) return 0;
  return part_end(part == Part::kRanges ? Part::kSmall : Part::kRanges, bits);
}

// A place of `bytes` in [begin, end), as far from the one end as `at` is from the other.
constexpr uptr mirrored(uptr begin, uptr end, uptr at, std::size_t bytes) { return end - bytes - (at - begin); }

// Bits that differ for different states (one round of splitmix64, whose next state is kStep further).
constexpr u64 kStep = 0x9e3779b97f4a7c15;
constexpr u64 mixed(u64 x) {
  x += kStep;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Region: tries one address after the other.
//
// Word      next: the next address to try; up by claims, and by threads that find a place occupied. If only claims
//           change it, each place is claimed once. take() does not need that: map(address) maps there or nowhere, and
//           the kernel decides; so there next is a hint, which goes down again when something is released
// Who       any thread, any signal handler
// Progress  claim: lock-free; take: kTries claims         Lost if killed: nothing but addresses
// Checked   tests/os/window_test.cc
template <class Env> class Region {
 public:
  static constexpr int kTries = 12;

  // The next `bytes` addresses at a multiple of `alignment` in [begin, end); 0: there are no more.
  uptr claim(uptr begin, uptr end, std::size_t bytes, std::size_t alignment) {
    uptr seen = next_.load_relaxed();
    for (;;) {
      const uptr at = align_up(seen < begin ? begin : seen, alignment);
      if (at < begin || at > end || end - at < bytes) return 0;
      if (next_.cas_relaxed(seen, at + bytes)) return at;
    }
  }

  struct Taken {
    uptr address = 0;      // 0: none
    bool refused = false;  // for lack of memory, not of a place
  };
  // An address in [begin, end), a multiple of `alignment`, for which map(address) succeeded.
  template <class Map> Taken take(uptr begin, uptr end, std::size_t bytes, std::size_t alignment, Map&& map) {
    std::size_t stride = bytes;  // to get past a mapping of unknown length
    for (int tries = 0; tries < kTries; ++tries) {
      uptr at = claim(begin, end, bytes, alignment);
      if (at == 0) {  // from the start again, if there is room at all
        const uptr first = align_up(begin, alignment);
        if (first < begin || first > end || end - first < bytes) return {};
        next_.store_relaxed(begin);
        at = claim(begin, end, bytes, alignment);
      }
      if (at == 0) continue;
      Env::step("region.claimed");
      const Extended got = map(at);
      if (got == Extended::kDone) return {at};
      if (got == Extended::kRefused) {
        lower(at);
        return {0, true};
      }
      stride *= 2;
      uptr mine = at + bytes;
      if (stride <= end - at) next_.cas_relaxed(mine, at + stride);
    }
    return {};
  }

  // The place at `address` is free again.
  void lower(uptr address) {
    uptr seen = next_.load_relaxed();
    if (address < seen) next_.cas_relaxed(seen, address);
  }

 private:
  typename Env::template Atomic<uptr> next_;
};

}  // namespace freeway::window
