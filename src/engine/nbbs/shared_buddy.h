// SPDX-License-Identifier: MIT
// SharedBuddy: what freeway_buddy_t is: a Buddy in somebody's memory, and how far from it the managed memory lies.
#pragma once

#include "engine/nbbs/buddy.h"
#include "freeway/buddy.h"
#include "os/machine.h"

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
    magic_ = kMagic;
  }
  bool is_valid() const { return magic_ == kMagic; }

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

  u64 magic_;
  i64 distance_;  // from here to the managed memory
};

}  // namespace freeway::nbbs
