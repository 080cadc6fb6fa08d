// SPDX-License-Identifier: MIT
// Engine: HMalloc as a malloc: which thread has which heap, and when it may not touch it.
//
// Plain malloc is the paper's HMalloc-shared: every block is shared, since nobody says which are local; programs that
// do say so call freeway_malloc_local (include/freeway/hmalloc.h). FREEWAY_HMALLOC_ROUTE_LOCAL=1 builds the other form,
// in which every block is its thread's, for comparisons with one thread.
//
// States    of a thread: fresh (no heap yet) -> owner (its first malloc or free) -> past (the exit hook gave the heap
//           away). An owner is busy while it is inside its heap
// Busy      a heap's fields are plain, so a signal handler that interrupts its thread inside must not touch them: its
//           frees reset flags (or wait, if the block is local: late_frees.h), its mallocs get large blocks of the
//           front. The same goes for a thread that is past
// Exit      by a pthread key, at the second round of destructors: those of other keys, in the first, still allocate
// Lost if killed: the heap of a thread that vanishes (raw exit, fork's other threads), or leaves a call by siglongjmp
//           and then ends: its free memory is nobody's. Its blocks may be freed, nobody waits. A thread that left a
//           call by siglongjmp and goes on is busy for ever: slower, and each of its mallocs a mapping, but correct
// Checked   papers/hmalloc/tests, tests/abi, tests/whole/stress, tests/whole/differential
#pragma once

#include "os/machine.h"
#include "papers/front/front.h"
#include "papers/hmalloc/heaps.h"

#ifndef FREEWAY_HMALLOC_ROUTE_LOCAL
#define FREEWAY_HMALLOC_ROUTE_LOCAL 0
#endif

namespace freeway::hmalloc {

// Superblocks and heaps from the substrate: the paper's "OS".
class Source {
 public:
  using Heap = ThreadHeap<Machine, PaperSizes, Source>;

  void init(Substrate* substrate) { substrate_ = substrate; }
  const Options& options() const { return substrate_->options(); }

  uptr take(Kind kind) {
    const std::size_t frames = bytes_of<PaperSizes>(kind) / kFrameSize;
    return substrate_->take_span(frames, frames, static_cast<u32>(kind));
  }
  void give(uptr address, Kind kind) { substrate_->give_span(address, bytes_of<PaperSizes>(kind) / kFrameSize); }
  static std::size_t page() { return vm::page_size(); }
  void purge(uptr address, std::size_t bytes);
  Heap::Local* local_of(uptr address) {
    const auto kind = static_cast<Kind>(substrate_->map().get(address).value());
    return reinterpret_cast<Heap::Local*>(superblock_of<PaperSizes>(address, kind));
  }
  Heap* heap(u32 index) { return static_cast<Heap*>(substrate_->metadata().at(index)); }
  u32 make_heap() {
    return substrate_->metadata().take(static_cast<u32>(ceil_div(sizeof(Heap), Metadata<Machine>::kUnit)));
  }
  void freed_twice(uptr block);

  // Calls f(address, kind) for what the page map says are superblocks.
  template <class F> void each_span(F&& f);

 private:
  Substrate* substrate_ = nullptr;
};

class Engine {
 public:
  using Heap = Source::Heap;
  static constexpr bool kRouteLocal = FREEWAY_HMALLOC_ROUTE_LOCAL != 0;

  static constexpr const char* kName = "hmalloc";
  static constexpr std::size_t kMaxSmall = kRouteLocal ? kMaxLocal : kMaxShared;
  static constexpr std::size_t kLargePrefix = 0;
  static constexpr u64 large_prefix(std::size_t) { return 0; }
  static constexpr bool kThreadHeaps = true;
  static constexpr std::size_t kHugeFrom = 1;  // "allocating memory from OS directly"

  bool start(Substrate& substrate);
  void* allocate(std::size_t bytes);
  void* allocate_aligned(std::size_t bytes, std::size_t alignment);
  Verdict free(uptr address, u32 value);
  std::size_t usable(uptr address, u32 value);
  bool begins_block(uptr address, u32 value);
  void trim();
  void account(Account& account);
  void audit(freeway_audit_t& audit);
  bool owns(u32 value, uptr address);

  // The two routes. Null: too large for a superblock (local), refused, or the calling thread must not touch its heap.
  void* allocate_local(std::size_t bytes);
  void* allocate_shared(std::size_t bytes);

 private:
  uptr allocate_local_aligned(std::size_t bytes, std::size_t alignment);
  uptr allocate_shared_aligned(std::size_t bytes, std::size_t alignment);
  Heap* own_heap();
  FREEWAY_NOINLINE Heap* join();
  static const Heap* heap_at_rest();  // the calling thread's, null if it is inside
  Verdict free_local(Heap::Local& sb, uptr address);
  static void at_thread_exit(void*);

  Source source_;
  Heaps<Machine, PaperSizes, Source> heaps_;
};

template <class F> void Source::each_span(F&& f) {
  substrate_->frames().each_arena([&](Arena<Machine>& arena) {
    const uptr end = arena.base() + arena.committed();
    for (uptr address = arena.base(); address < end;) {
      const FrameInfo info = substrate_->map().get(address);
      const auto kind = static_cast<Kind>(info.value());
      if (info.kind() == FrameInfo::kSmall && is_kind(info.value()) && address % bytes_of<PaperSizes>(kind) == 0 &&
          address + bytes_of<PaperSizes>(kind) <= end) {
        f(address, kind);
        address += bytes_of<PaperSizes>(kind);
      } else {
        address += info.kind() == FrameInfo::kLarge ? clamp(info.frames(), 1, kMaxFrames) * kFrameSize : kFrameSize;
      }
    }
    return true;
  });
}

}  // namespace freeway::hmalloc

namespace freeway {
using SelectedEngine = hmalloc::Engine;
extern FREEWAY_HIDDEN constinit Front<SelectedEngine> process_heap;
}  // namespace freeway
