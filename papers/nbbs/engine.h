// SPDX-License-Identifier: MIT
// Engine: the buddy system as a malloc (Scarselli 2017).
//
// A block's size is the power of two that holds it, 16 bytes to 256 KiB, and its address is a multiple of that. Regions
// of 512 KiB (16 levels, 34,952 bytes of words: 6.7 %) are made as they are needed; larger blocks are the front's.
//
// Word      table_: region_table.h
//           spare_: slot + 1 of a region that was seen empty and kept, so that a program at its edge does not open and
//           close regions all the time; a hint
//           first_[l]: regions before this slot had no block of level l when they were last asked     closed_: how many
//           are closed. Hints, all of them: every 16th region is opened only after a search that follows none
//           recent_: where blocks were freed (recent.h), for threads of the same hash
// Thread    places: per level, where this thread's search goes on: behind what it took last, first at the paper's
//           starting node. A hint: a handler may change it at any instruction, and a thread that ends leaves nothing
// Who       any thread, any signal handler, the child of any fork (not with FORM=spin, which waits)
// Lost if killed: at most the block in hand, a region being opened or closed (region.h), an unpublished tree, and what
//           papers/nbbs/README.md says of hints, until the next trim
// Checked   tests/abi, tests/whole/differential, tests/whole/stress, tests/whole/signal, tests/whole/stall,
//           papers/nbbs/tests
#pragma once

#include "papers/front/front.h"
#include "papers/nbbs/recent.h"
#include "papers/nbbs/region.h"
#include "papers/nbbs/region_table.h"

namespace freeway::nbbs {

class Engine {  // all zero until start()
 public:
  using Region = nbbs::Region<Machine, Substrate>;
  static constexpr const char* kName = "nbbs";
  static constexpr std::size_t kMaxSmall = kMiB;  // at most; largest() is what the options say
  std::size_t largest() const { return std::size_t{1} << settings_.max_shift; }
  static constexpr std::size_t kLargePrefix = 0;
  static constexpr std::size_t kHugeFrom = LargeBlocks<Machine>::kHugeFrames;
  static u64 large_prefix(std::size_t) { return 0; }

  bool start(Substrate& substrate);
  void* allocate(std::size_t bytes);
  void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    return allocate(bytes < alignment ? alignment : bytes);
  }
  Verdict free(uptr address, u32 value);
  std::size_t usable(uptr address, u32 value);
  bool begins_block(uptr address, u32 value);
  void trim();
  void account(Account& account);
  bool owns(u32 value, uptr address);
  const char* mode() const;

 private:
  static constexpr u32 kMostRegions = 1 << 18;  // 128 GiB at 512 KiB each
  static constexpr unsigned kMostTreeLevels = 22;
  static constexpr unsigned kShards = 16;

  struct Found {
    Region* region;
    Node node;  // of the block that holds the address; 0: none
  };
  Found find(uptr address, u32 value);
  Region* region(u32 slot) { return table_.at(slot); }
  u32 regions() const { return table_.size(); }

  enum Hints : bool { kIgnored = false, kFollowed = true };
  void* take_recent(unsigned level);
  void* take_from(u32 slot, unsigned level, Node start, Hints hints);
  void* take_anywhere(unsigned level, u32 except);
  void* take_from_open(unsigned level, u32 except, Node start, Hints hints);
  void* take_from_closed(unsigned level, Node start);
  Region* add_region();
  Region* make_region();
  bool close_unless_spare(u32 slot);
  bool close(Region& region);
  void look_again_from(u32 slot, unsigned level);
  void* taken(u32 slot, Node node);
  void purge(Region& region, Node n);

  Substrate* substrate_ = nullptr;
  Settings settings_ = {};
  Atomic<u32> spare_;
  Atomic<u32> closed_;
  Atomic<u32> opened_;
  Atomic<u32> first_[kMostTreeLevels];
  Recent<Machine> recent_[kShards][kMostTreeLevels];
  RegionTable<Machine, Region, kMostRegions> table_;
};

}  // namespace freeway::nbbs

namespace freeway {
extern FREEWAY_HIDDEN constinit Front<nbbs::Engine> process_heap;
}  // namespace freeway
