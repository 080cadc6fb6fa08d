// SPDX-License-Identifier: MIT
// heap.h: the flagship's heap as another process has it: a copy, read at once in large pieces, and what it says.
//
// The process may run meanwhile, or have been stopped anywhere. Each word is one that it had at some moment; together
// they may be of different moments. So nothing here takes two words to agree: what contradicts itself is left out, and
// every loop ends by a bound that does not come from the process.
#pragma once

#include <unordered_map>

#include "harden/guard_slots.h"
#include "heap/description.h"
#include "look/account.h"

namespace freeway_command {

struct Superblock {
  std::uint32_t descriptor, size_class, node;
  std::uint32_t free;    // blocks whose bits are set
  std::uint32_t cached;  // of the others: blocks in magazines
  std::uint64_t anchor, span;
  std::size_t words;  // index of its first bitmap word
};

struct CachedBlock {
  std::uint64_t address;
  std::uint32_t size_class, slab;  // `slab`: its index
  bool rests;                      // FREEWAY_HARDEN=1: not in a magazine, but at rest
};

struct SlabView {
  std::string name;  // "CPU 3", "spare slab 2"
  std::uint64_t address;
};

using ArenaView = Walk::Arena;

using GuardSlot = freeway::guard::Seen;

class Heap {
 public:
  explicit Heap(const Memory& memory);
  Heap(const Heap&) = delete;

  const Memory& memory() const { return description_.memory(); }
  const Description& description() const { return description_; }
  const Walk& walk() const { return walk_; }
  const freeway_debug_t& layout() const { return description_.layout(); }
  bool is_started() const { return walk_.is_started(); }

  const std::vector<Superblock>& superblocks() const { return superblocks_; }
  const std::vector<CachedBlock>& cached() const { return cached_; }
  const std::vector<SlabView>& slabs() const { return slabs_; }
  const std::vector<ArenaView>& arenas() const { return arenas_; }
  const std::vector<GuardSlot>& guard_slots() const { return guard_slots_; }  // none while nothing is guarded
  std::uint64_t guard_begin() const { return walk_.guard_begin(); }
  std::uint64_t guard_bytes() const { return walk_.guard_bytes(); }

  bool is_free(const Superblock& superblock, std::uint32_t index) const {
    return (words_[superblock.words + index / 64] >> (index % 64) & 1) != 0;
  }
  // The superblock of class `c` whose blocks begin at `span`; null: none in use does.
  const Superblock* superblock_at(std::uint64_t span) const;
  const Superblock* superblock_of(std::uint32_t descriptor) const;
  // The page map's entries of so many frames from an address on; 0: nothing is known of a frame.
  std::vector<std::uint32_t> entries(std::uint64_t address, std::size_t frames) const;
  // Entries that are not 0, of frames outside the primary arena: (address, entry).
  std::vector<std::pair<std::uint64_t, std::uint32_t>> outside() const;
  // By class; class 0 is empty.
  const std::vector<freeway::look::ClassAccount>& accounts() const { return accounts_; }
  std::uint64_t word(const freeway_debug_field_t& field) const { return walk_.word(field); }

 private:
  void add_superblock(const Walk::Descriptor& found);
  void add_slab(const std::string& name, const Object& slab);
  void assign_cached();

  Description description_;
  Walk walk_;
  std::vector<freeway::look::ClassAccount> accounts_;
  std::vector<ArenaView> arenas_;
  std::vector<Superblock> superblocks_;
  std::vector<std::uint64_t> words_;
  std::unordered_map<std::uint64_t, std::size_t> by_span_, by_descriptor_;
  std::vector<SlabView> slabs_;
  std::vector<CachedBlock> cached_;
  std::vector<GuardSlot> guard_slots_;
};

}  // namespace freeway_command
