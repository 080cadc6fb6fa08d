// SPDX-License-Identifier: MIT
// memory.h: where LFMalloc's superblocks, headers and heaps come from: the Space of global_heap.h.
//
// Word      newest: the header made last; each header names the one before it. A header is made once and stays
// Moves     newest: h -> the new header (CAS), after its `older` was set to h
// Orders    [R1] publishes a header's index and `older`; [A1] walks see them
// Lost if killed: an unpublished header, 128 bytes
#pragma once

#include <new>

#include "arch/tsan.h"
#include "pages/substrate.h"
#include "papers/lfmalloc/local_heap.h"
#include "papers/lfmalloc/sections.h"

namespace freeway::lfmalloc {

// Reads the link of a free block. The block may be the program's again by now, and the program writes to it; then the
// value is not used (docs/optimistic-reads.md). Hidden from the sanitizer: the program's writes are not atomic.
#ifdef FREEWAY_TSAN
__attribute__((no_sanitize("thread"), noinline)) inline u64 link_unseen(uptr block) {
  return *reinterpret_cast<const volatile u64*>(block);  // the sanitizer sees atomic accesses even here
}
#else
FREEWAY_INLINE u64 link_unseen(uptr block) {
  return __atomic_load_n(reinterpret_cast<const u64*>(block), __ATOMIC_RELAXED);
}
#endif

// The Env of the product: local words are atomic, since threads without rseq change them by CAS.
struct Product : Machine {
  template <class T> using Local = Atomic<T>;
  static Atomic<u64>& link(uptr block) { return *reinterpret_cast<Atomic<u64>*>(block); }
  // For a thread that does not own the block.
  static u64 link_unowned(uptr block) { return link_unseen(block); }
};

using Block = Superblock<Product>;

// For cpu_table.h: where sections find the heap of their CPU.
struct CpuSlots {
  static constexpr u32 kCpus = RSEQ_IDS;
  static Atomic<LocalHeap<Product>*>& slot(u32 cpu) {
    return reinterpret_cast<Atomic<LocalHeap<Product>*>&>(freeway_lfmalloc_heaps[cpu]);
  }
};

class Memory : public CpuSlots {
 public:
  void init(Substrate* substrate) { substrate_ = substrate; }

  Block& at(u32 index) { return *static_cast<Block*>(substrate_->metadata().at(index)); }
  static constexpr unsigned classes() { return kClassCount; }
  static constexpr u32 most_swept() { return 4096; }
  static u32 blocks(unsigned c) { return kClasses[c].blocks; }
  static u32 stride(unsigned c) { return kClasses[c].stride; }
  static Atomic<u64>& prefix(uptr block) { return *reinterpret_cast<Atomic<u64>*>(block - kPrefixBytes); }
  void cut_prefix(u32 index, uptr block) {
    prefix(block).store_relaxed(reinterpret_cast<u64>(&at(index)) | prefix::kFree);
  }

  u32 make_header() {
    const u32 index = substrate_->metadata().take(sizeof(Block) / Metadata<Machine>::kUnit);
    if (index == 0) return 0;
    Block& s = at(index);
    s.index.store_relaxed(index);
    u32 newest = newest_.load_relaxed();
    do { s.older.store_relaxed(newest); } while (!newest_.cas_release(newest, index));  // [R1] pairs with [A1]
    return index;
  }
  LocalHeap<Product>* make_heap() {
    static_assert(sizeof(LocalHeap<Product>) <= 9 * Metadata<Machine>::kUnit);
    const u32 index = substrate_->metadata().take(9);
    return index == 0 ? nullptr : static_cast<LocalHeap<Product>*>(substrate_->metadata().at(index));
  }

  uptr take_memory(u32 index) { return substrate_->take_span(1, 1, index); }
  void give_memory(uptr base) { substrate_->give_span(base, 1); }
  bool rename(uptr base, u32 index) { return substrate_->map().set(base, 1, FrameInfo::small(index), 0); }

  // Calls f(header) for every header that was ever made.
  template <class F> void each_header(F&& f) {
    for (u32 d = newest_.load_acquire(); d != 0; d = at(d).older.load_relaxed()) f(at(d));  // [A1] pairs with [R1]
  }

 private:
  Substrate* substrate_ = nullptr;
  Atomic<u32> newest_;
};

}  // namespace freeway::lfmalloc
