// SPDX-License-Identifier: MIT
// heap.h: the flagship's heap as another process has it: a copy, read at once in large pieces, and what it says.
//
// The process may run meanwhile, or have been stopped anywhere. Each word is one that it had at some moment; together
// they may be of different moments. So nothing here takes two words to agree: what contradicts itself is left out, and
// every loop ends by a bound that does not come from the process.
#pragma once

#include <unordered_map>

#include "heap/description.h"

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
  std::string name;  // "CPU 3", "claimed slab 0", "owned slab 2"
  std::uint64_t address;
};

struct ArenaView {
  std::uint64_t base, bytes, committed;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> holes;  // offsets
  std::vector<std::uint64_t> used, dirty;                      // a word for each chunk up to `committed`
  // Frames of a chunk that are accessible, as bits.
  std::uint64_t accessible(std::size_t chunk) const;
};

struct GuardSlot {
  std::uint64_t word, address, size, allocated_by, allocated_in, freed_by, freed_in;
};

class Heap {
 public:
  explicit Heap(const Memory& memory);

  const Memory& memory() const { return memory_; }
  const Description& description() const { return description_; }
  const freeway_debug_t& layout() const { return description_.layout(); }
  bool is_started() const { return !arenas_.empty(); }

  const std::vector<Superblock>& superblocks() const { return superblocks_; }
  const std::vector<CachedBlock>& cached() const { return cached_; }
  const std::vector<SlabView>& slabs() const { return slabs_; }
  const std::vector<ArenaView>& arenas() const { return arenas_; }
  const std::vector<GuardSlot>& guard_slots() const { return guard_slots_; }  // none while nothing is guarded
  std::uint64_t guard_begin() const { return guard_begin_; }
  std::uint64_t guard_bytes() const { return guard_bytes_; }

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
  // Calls f(begin, bytes) for each segment of descriptors.
  template <class F>
  void each_segment(F&& f) const {
    for (std::size_t i = 0; i < segments_.size(); ++i)
      if (segments_[i].first != 0 && segments_[i].second != 0) f(segments_[i].first, segments_[i].second);
  }
  // The sum of a counter of one class, or of all (0), over all slabs.
  std::uint64_t counted(const freeway_debug_field_t& counter, unsigned c) const;
  std::uint64_t word(const freeway_debug_field_t& field) const { return description_.heap_word(memory_, field); }

 private:
  void read_arenas();
  void read_arena(std::uint64_t address);
  void read_segments();
  void read_descriptors(const std::vector<char>& segment, std::uint32_t first, std::uint32_t from, std::uint32_t end);
  void read_slabs();
  void read_slab(const std::string& name, std::uint64_t address);
  void read_magazine(const Object& head, std::uint64_t top, unsigned c, std::uint32_t area, std::uint32_t slots,
                     bool rests);
  void read_beds(const Object& head, unsigned c);
  void read_guard();
  void assign_cached();

  const Memory& memory_;
  Description description_;
  std::vector<ArenaView> arenas_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> segments_;  // address, accessible bytes
  std::vector<Superblock> superblocks_;
  std::vector<std::uint64_t> words_;
  std::unordered_map<std::uint64_t, std::size_t> by_span_, by_descriptor_;
  std::vector<SlabView> slabs_;
  std::vector<Object> slab_heads_;
  std::vector<CachedBlock> cached_;
  std::vector<GuardSlot> guard_slots_;
  std::uint64_t guard_begin_ = 0, guard_bytes_ = 0;
  bool has_beds_ = false;
};

}  // namespace freeway_command
