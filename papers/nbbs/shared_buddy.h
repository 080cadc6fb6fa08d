// SPDX-License-Identifier: MIT
// SharedBuddy: what freeway_buddy_t is: a Buddy in somebody's memory, and how far from it the managed memory lies.
#pragma once

#include "freeway/buddy.h"
#include "os/machine.h"
#include "papers/nbbs/buddy.h"

namespace freeway::nbbs {

class alignas(64) SharedBuddy {
 public:
  using Tree = Buddy<Machine>;
  static constexpr u64 kMagic = 0x7962'6475'6277'7266;  // says: a buddy of this layout

  // False: they make no sense.
  static bool read(const freeway_buddy_options_t& options, Settings* settings);
  static std::size_t bytes(const Settings& s) { return sizeof(SharedBuddy) + Tree::bytes(s); }
  // In zeroed memory.
  void init(const Settings& settings, void* memory) {
    distance_ = static_cast<i64>(reinterpret_cast<uptr>(memory) - reinterpret_cast<uptr>(this));
    tree().init(settings);
    seal_ = seal();
    magic_ = kMagic;
  }
  // Whether a buddy was made at `metadata`: what every call looks at first.
  static bool is_one(const void* metadata) {
    return metadata != nullptr && reinterpret_cast<uptr>(metadata) % alignof(SharedBuddy) == 0 &&
           static_cast<const SharedBuddy*>(metadata)->magic_ == kMagic;
  }
  // Whether what was written down when it was made is unchanged: once, when somebody attaches.
  bool is_intact() { return settings().valid() && seal_ == seal(); }

  Tree& tree() { return *reinterpret_cast<Tree*>(this + 1); }
  const Settings& settings() { return tree().settings(); }
  char* memory() { return reinterpret_cast<char*>(reinterpret_cast<uptr>(this) + static_cast<u64>(distance_)); }
  bool manages(const void* address) {
    return reinterpret_cast<uptr>(address) - reinterpret_cast<uptr>(memory()) < settings().managed();
  }

  // 0 or an errno value; the block is stored in *block.
  int take(std::size_t size, void** block);
  int take_at(const void* address, std::size_t size, void** block);
  int give(const void* block);
  // The node of the block that begins there, 0 if none does.
  Node node_of(const void* block);

 private:
  // The node of a block of `size` bytes that begins at `address`; 0 and *error if there is none.
  Node node_for(const void* address, std::size_t size, int* error);
  friend int ::freeway_buddy_repair(freeway_buddy_t*, void*, std::size_t);

  // A number made of everything that is constant (SplitMix64's steps).
  u64 seal() {
    const Settings& s = settings();
    u64 sum = static_cast<u64>(distance_);
    const u64 parts[] = {s.levels, s.min_shift, s.max_shift, s.levels_per_word, static_cast<u64>(s.kind)};
    for (const u64 part : parts) {
      sum = (sum + part + 0x9E37'79B9'7F4A'7C15) * 0xBF58'476D'1CE4'E5B9;
      sum ^= sum >> 31;
    }
    return sum;
  }

  u64 magic_;
  i64 distance_;  // from here to the managed memory
  u64 seal_;
};

}  // namespace freeway::nbbs
