// SPDX-License-Identifier: MIT
// search.h: which blocks of a heap are reached by pointers. The process stands still meanwhile.
//
// A word is a pointer to a block if it is an address in it, from its first byte to its last, and lies at a multiple of
// 8. Live is what is neither free in its superblock nor cached in a slab: pointers in other blocks reach nothing.
#pragma once

#include "leaks/roots.h"

namespace freeway_command {

class Search {
 public:
  explicit Search(const Heap& heap);

  // Begin with these: what they reach, and what that reaches, is reached.
  void reach_from(const std::vector<Range>& roots);
  void reach_from(const std::vector<std::uint64_t>& words);
  // Afterwards: which of the blocks that nothing has reached have pointers to them in others of that kind.
  void follow_unreached();

  enum class Found { kNoBlock, kReached, kUnreached, kHeld };  // kHeld: unreached, but by another block that is so
  Found look(std::uint64_t address) const;
  std::uint64_t live_blocks() const;

 private:
  // A superblock, or a block alone. Bits of its blocks are in rows from `bits` on.
  struct Area {
    std::uint64_t begin, end, block_bytes;
    std::uint32_t blocks;
    std::size_t bits;
  };
  struct Block {
    std::uint32_t area = kNone, index = 0;
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  using Bits = std::vector<std::uint64_t>;

  void add(std::uint64_t begin, std::uint64_t bytes, std::uint64_t block_bytes, std::uint32_t blocks);
  void add_superblocks(const Heap& heap);
  void add_large(const Heap& heap, std::uint64_t address, std::uint32_t entry);
  void sort_areas();
  Block block_at(std::uint64_t address) const;
  bool is_set(const Bits& row, const Block& block) const {
    return (row[areas_[block.area].bits + block.index / 64] >> (block.index % 64) & 1) != 0;
  }
  void set(Bits& row, const Block& block) {
    row[areas_[block.area].bits + block.index / 64] |= std::uint64_t{1} << (block.index % 64);
  }
  void reach(std::uint64_t word);
  void follow();
  template <class F> void read_words(std::uint64_t begin, std::uint64_t end, F&& f) const;
  template <class F> void each_block_words(const Area& area, const Bits& chosen, F&& f) const;

  const Memory& memory_;
  std::vector<Area> areas_;  // by address
  // Rows of bits: live blocks; those that are reached; of these, those that are yet to be read; the unreached ones that
  // another unreached one has a pointer to.
  Bits live_, reached_, waiting_, held_;
  std::vector<std::uint32_t> queue_;  // areas with blocks that wait
  std::vector<bool> is_queued_;
  std::uint64_t lowest_ = 0, highest_ = 0;
  std::vector<std::uint32_t> by_frame_;  // of the first arena: the area that has the frame, + 1
  std::uint64_t arena_ = 0;
  unsigned frame_shift_;
};

}  // namespace freeway_command
