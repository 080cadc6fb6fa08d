// SPDX-License-Identifier: MIT
// engine.h: LFMalloc (Dice & Garthwaite 2002) as an engine: its parts put together, and what the front
// asks of it. papers/lfmalloc/README.md has the paper beside the code.
#pragma once

#include "papers/front/front.h"
#include "papers/lfmalloc/allocator.h"
#include "papers/lfmalloc/cpu_heaps.h"
#include "papers/lfmalloc/memory.h"

namespace freeway::lfmalloc {

using Heaps = LocalHeaps<Product, Memory>;
using Global = GlobalHeap<Product, Memory, RemoteAsTold, ListAsTold>;

class Engine {  // all zero until start()
 public:
  static constexpr const char* kName = "lfmalloc";
  static constexpr std::size_t kMaxSmall = kLargestBlock;
  // A large block's one-block superblock is a run of frames; its page-map entry says so, in the place of a prefix.
  static constexpr std::size_t kLargePrefix = 0;
  static u64 large_prefix(std::size_t) { return 0; }
  static constexpr std::size_t kHugeFrom = LargeBlocks<Machine>::kHugeFrames;

  bool start(Substrate& substrate);
  FREEWAY_INLINE void* allocate(std::size_t bytes) {
    const uptr block = allocator_.malloc(class_of_size(bytes));
    if (FREEWAY_UNLIKELY(block == 0)) return nullptr;
    Atomic<u64>& prefix = Memory::prefix(block);
    prefix.store_relaxed(prefix.load_relaxed() & ~prefix::kFree);
    return reinterpret_cast<void*>(block);
  }
  void* allocate_aligned(std::size_t bytes, std::size_t alignment);
  Verdict free(uptr address, u32 value);
  std::size_t usable(uptr address, u32 value);
  bool begins_block(uptr address, u32 value) { return locate(address, value).block != 0; }
  void trim() { allocator_.trim(); }

  void account(Account& account);
  void audit(freeway_audit_t& audit);
  bool owns(u32 value, uptr address);
  const char* mode() const;
  // For FREEWAY_STATS: how often a section was interrupted (the paper's Table 2).
  void write_classes(int fd) const;

  Heaps& heaps() { return heaps_; }
  Global& global() { return global_; }
  Memory& memory() { return memory_; }

 private:
  // The block that `address`, where it begins or has its aligned address, belongs to; block = 0: none.
  struct Place {
    Block* superblock;
    unsigned size_class;
    uptr block;
  };
  FREEWAY_INLINE Place locate(uptr address, u32 value) {
    Block& s = memory_.at(value);
    const uptr base = s.base.load_relaxed();
    const uptr offset = address - base;
    const unsigned c = s.size_class.load_relaxed();
    const BlockClass& k = kClasses[c];
    if (FREEWAY_UNLIKELY(offset - kFirstData >= kSuperblockBytes - kFirstData)) return {&s, c, 0};
    const uptr data = k.data_of(offset);
    if (FREEWAY_UNLIKELY(offset != data)) return {&s, c, block_of_aligned(address, base + data)};
    if (FREEWAY_UNLIKELY(k.index_of(offset) >= k.blocks)) return {&s, c, 0};
    return {&s, c, address};
  }
  FREEWAY_NOINLINE static uptr block_of_aligned(uptr address, uptr block) {
    if (address % 16 != 0 || address - block < 16) return 0;
    return Memory::prefix(address).load_relaxed() == (block | prefix::kAligned) ? block : 0;
  }

  Memory memory_;
  Heaps heaps_;
  Global global_;
  Allocator<Product, Heaps, Global> allocator_;
};

}  // namespace freeway::lfmalloc

namespace freeway {
extern FREEWAY_HIDDEN constinit Front<lfmalloc::Engine> process_heap;
}  // namespace freeway
