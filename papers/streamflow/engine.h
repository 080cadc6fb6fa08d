// SPDX-License-Identifier: MIT
// Engine: Streamflow behind the front (papers/front/front.h): a heap for each thread, bad pointers, accounts.
//
// Thread    `own`, thread-local: the thread's heap while it is outside of us. Whoever enters takes it out and puts it
//           back, so a signal handler that interrupts a local operation finds none: it frees remotely, and what it
//           allocates is a large block of the front. The same holds for a thread after its exit hook
// Heaps     type-stable, named by their place in the metadata; `heaps_` holds those of threads that ended
// Objects   a freed one is marked (in its header, or behind its link), so that freeing it again is seen until somebody
//           gets it or its page block goes back
// Lost if killed: a thread that vanishes without its exit hook (raw exit, fork's other threads), or jumps out of a call
//           (siglongjmp), leaves its heap behind: page blocks in it that nobody empties stay, and what others free to
//           them is not used again
// Progress  lock-free. Not signal-safe in full, not kill-safe: see papers/streamflow/README.md
#pragma once

#include "papers/front/front.h"
#include "papers/streamflow/allocator.h"
#include "papers/streamflow/pages.h"

namespace freeway::streamflow {

// Superpages are spans of frames; their headers are metadata.
class Space {
 public:
  static constexpr u32 kMostSuperpages =  // 1 TiB of them
      static_cast<u32>((u64{1} << StackHead::kIndexBits) * kMinPageBlock / kBuild.superpage_bytes());
  static constexpr unsigned kPieceHeaders = 64;
  void init(Substrate* substrate) { substrate_ = substrate; }
  u32 take_units(u32 units) { return substrate_->metadata().take(units); }
  void* at(u32 index) const { return substrate_->metadata().at(index); }
  uptr take_superpage(std::size_t bytes, u32 header);
  void give_superpage(uptr address, std::size_t bytes) { substrate_->give_span(address, bytes / kFrameSize); }

 private:
  Substrate* substrate_ = nullptr;
};

class Engine {
 public:
  using Classes = SizeClasses<kBuild>;
  using PagesOf = Pages<Machine, Space, kBuild>;
  using AllocatorOf = Allocator<Machine, Classes, PagesOf>;
  using Heap = AllocatorOf::Heap;
  using Block = AllocatorOf::Block;

  static_assert(sizeof(Block) <= kPageBlockHeader);

  static constexpr const char* kName = "streamflow";
  static constexpr std::size_t kMaxSmall = Classes::kMostBytes;
  static constexpr std::size_t kLargePrefix = 16;  // the paper's 8 bytes, and 8 that keep malloc's alignment
  static u64 large_prefix(std::size_t bytes) { return bytes; }
  static constexpr bool kThreadHeaps = true;
  static constexpr std::size_t kHugeFrom = 1;

  static const char* mode() {
    return kHasHeaders ? "headers" : kBuild.huge_pages ? "superpages" : kHasMarks ? "headerless" : "packed";
  }

  bool start(Substrate& substrate);
  void* allocate(std::size_t bytes);
  void* allocate_aligned(std::size_t bytes, std::size_t alignment);
  Verdict free(uptr address, u32 superpage);
  std::size_t usable(uptr address, u32 superpage);
  bool begins_block(uptr address, u32 superpage);
  void trim();
  void account(Account& account);
  bool owns(u32 superpage, uptr address);

 private:
  static constexpr bool kHasHeaders = kBuild.object_header != 0;
  static constexpr bool kHasMarks = kBuild.class_step >= 16;  // else an object has no room for a second word

  struct Found {
    Block* block;  // null: there is no page block, or none that the object's header speaks of
    u32 object;    // 0: the address is in no object
    bool exact;    // it is where the object begins, or where an aligned block may begin in it
  };
  Found find(uptr address, u32 superpage);
  bool is_marked_free(const Found& found);

  static Heap* take_own();
  static void put_own(Heap* heap);
  Heap* make_heap();
  void* allocate_from(Heap* heap, std::size_t bytes);
  void* allocate_first(std::size_t bytes);
  Verdict rearrange(Heap* heap, Block& b);
  Verdict free_elsewhere(Heap* heap, Block& b, u32 object);
  static void at_exit(void* heap);
  Heap& heap_at(u32 id) { return *static_cast<Heap*>(space_.at(id)); }

  Space space_;
  PagesOf pages_;
  AllocatorOf allocator_;
  TaggedStack<Machine> heaps_;
};

}  // namespace freeway::streamflow

namespace freeway {
extern FREEWAY_HIDDEN constinit Front<streamflow::Engine> process_heap;
}
