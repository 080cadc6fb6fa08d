// SPDX-License-Identifier: MIT
// ThreadHeap: what one thread allocates from: LSL; for each class SSL and a block cache list (HMalloc 2020, Fig. 2).
//
// Fields    owner-only, but for `late` (late_frees.h) and, while nobody owns the heap, `link` (heaps.h)
// Who       the owner. Of a heap's superblocks others touch the first line and the flag of a block that is theirs
// Orders    flag.h, for blocks; heaps.h, for the heap as a whole
// RMW       none: only `late`, which is empty in a program without handlers that free local blocks, has any
// Memory    superblocks stay until trim, the paper's until the end: there is no global heap
// Lost if killed: the heap: its free memory is nobody's. Its blocks may still be freed
// Checked   papers/hmalloc/tests/{thread_heap_test,flag_model,inheritance_model,common_path_test}.cc
//
// Source is where superblocks come from:
//   take(kind)            -> address of bytes_of(kind) bytes at a multiple of as many, 0 without memory
//   give(address, kind)
//   page(), purge(address, bytes)   the memory of whole pages, which read as zero then, or as before
//   local_of(address)     -> the local superblock of a block
//   freed_twice(address)  a block that was freed late had been freed before
#pragma once

#include "base/compiler.h"
#include "papers/hmalloc/block_cache.h"
#include "papers/hmalloc/late_frees.h"
#include "papers/hmalloc/local_superblock.h"
#include "papers/hmalloc/shared_superblock.h"
#include "papers/hmalloc/superblock_list.h"

namespace freeway::hmalloc {

enum class Freed { kYes, kTwice, kNoBlock };

template <class Env, class S, class Source> class ThreadHeap {
 public:
  using Local = LocalSuperblock<Env, S>;
  using Shared = SharedSuperblock<Env, S>;

  // By whoever makes the heap, once.
  void init(Source* source, u32 index) {
    source_ = source;
    index_ = index;
  }
  u32 index() const { return index_; }

  // --- Algorithm 1: thread local memory allocation. 0: the OS is to serve it, or there is no memory. ----------------

  uptr allocate_local(std::size_t request) {
    const std::size_t sz = local_size<S>(request);  // line 2
    Local* current = local_.get();
    if (current != nullptr) {
      if (!fits_local(sz, current->size.get())) return 0;      // lines 3, 17
      if (const uptr ptr = current->allocate(sz)) return ptr;  // lines 4-7
    } else if (!fits_local(sz, first_local() ? S::kFirst : S::kLater)) {
      return 0;
    }
    return allocate_local_elsewhere(sz);
  }

  // --- Algorithm 2: thread shared memory allocation; `request` fits_shared. 0: there is no memory. ------------------

  uptr allocate_shared(std::size_t request) {
    const std::size_t sz = shared_size<S>(request);   // line 2
    SharedClass& c = classes_[size_to_class<S>(sz)];  // line 4
    uptr ptr = c.cache.take();                        // lines 6-9
    Shared* current = c.current.get();                // line 5
    if (ptr == 0 && current != nullptr) {
      ptr = current->take_vacant();          // lines 10-13
      if (ptr == 0) ptr = current->probe();  // line 15
    }
    if (ptr == 0) ptr = allocate_shared_elsewhere(c, sz);  // lines 16-26
    if (ptr == 0) return 0;
    flag_of<Env>(ptr).store_relaxed(Flag<S>::occupied(S::kFlagArea));  // lines 28-29
    return ptr + S::kFlagArea;                                         // line 30
  }

  // --- Algorithm 3: thread local memory deallocation, by the owner. --------------------------------------------------

  static Freed free_local(Local& sb, uptr address) {
    return sb.free(address) ? Freed::kYes : sb.may_start_at(address) ? Freed::kTwice : Freed::kNoBlock;
  }

  // --- Algorithm 4: thread shared memory deallocation, by any thread. ------------------------------------------------

  // `mine`: the calling thread's own heap; null if it cannot be touched: then the flag it is.
  static Freed free_shared(ThreadHeap* mine, const Shared& sb, uptr address) {
    const uptr block = sb.block_of(address);
    if (FREEWAY_UNLIKELY(!sb.handed_out_at(block, address)))
      return sb.begins_block(address) ? Freed::kTwice : Freed::kNoBlock;
    if (mine != nullptr && mine->classes_[size_to_class<S>(sb.object_size.get())].cache.put(block))  // lines 4, 8
      return Freed::kYes;
    Env::step("hmalloc.reset");
    reset_flag<Env>(block);  // lines 5-6
    // LAST TOUCH: sb, block
    return Freed::kYes;
  }

  // --- Not in the paper. ---------------------------------------------------------------------------------------------

  // A local block of this heap that its user frees where the owner's part cannot run.
  void free_late(uptr block) { late_.put(block); }
  // Owner: frees those blocks. False: one of them was no block.
  bool drain_late() {
    bool good = true;
    late_.take_all([&](uptr block) {
      good = source_->local_of(block)->free(block);
      if (!good) source_->freed_twice(block);
      return good;
    });
    return good;
  }

  // Owner: the blocks in the cache lists, whosever they are, become free.
  void empty_caches() {
    for (SharedClass& c : classes_)
      while (const uptr block = c.cache.take()) reset_flag<Env>(block);
  }

  // Owner: gives back superblocks without a block in use, and the memory of whole pages without one in the other shared
  // superblocks. Returns the bytes of the superblocks.
  std::size_t trim() {
    drain_late();
    std::size_t bytes = 0;
    for (SharedClass& c : classes_) bytes += trim_class(c);
    if (Local* current = local_.get(); current != nullptr && current->empty()) {
      local_.set(nullptr);
      bytes += give_back(*current, Kind::kLocalFirst, Kind::kLocalLater);
    }
    lsl_.traverse([&](Local& sb) {
      if (!sb.empty()) return false;
      lsl_.remove(&sb);
      bytes += give_back(sb, Kind::kLocalFirst, Kind::kLocalLater);
      return false;
    });
    return bytes;
  }

  // Calls f(superblock) for all, local and shared. While nobody else is inside.
  template <class F> void each_superblock(F&& f) const {
    auto each = [&](const auto& sb) {
      f(sb);
      return false;
    };
    if (local_.get() != nullptr) f(*local_.get());
    lsl_.traverse(each);
    for (const SharedClass& c : classes_) {
      if (c.current.get() != nullptr) f(*c.current.get());
      c.ssl.traverse(each);
    }
  }
  u32 cached(unsigned c) const { return classes_[c].cache.count(); }
  // Whether the superblock is one of this heap's. While nobody else is inside.
  bool holds(const Local& sb) const {
    return local_.get() == &sb || lsl_.traverse([&](const Local& each) { return &each == &sb; }) != nullptr;
  }
  bool holds(const Shared& sb) const {
    const unsigned c = size_to_class<S>(sb.object_size.get());
    if (c >= S::kClasses) return false;
    return classes_[c].current.get() == &sb ||
           classes_[c].ssl.traverse([&](const Shared& each) { return &each == &sb; }) != nullptr;
  }

  // heaps.h: the heap below in the stack of ended threads' heaps, and the one made before this.
  typename Env::template Atomic<u32> link, older;
  // For audits: 0 while it is nobody's, in the stack.
  typename Env::template Atomic<u32> owned;

 private:
  struct SharedClass {
    typename Env::template Plain<Shared*> current;
    SuperblockList<Env, Shared> ssl;
    BlockCache<Env, S> cache;
  };

  bool first_local() const { return local_.get() == nullptr && lsl_.empty(); }

  // Algorithm 1, lines 9-14.
  uptr allocate_local_elsewhere(std::size_t sz) {
    drain_late();
    const bool first = first_local();
    if (Local* exhausted = local_.get()) lsl_.insert(exhausted);                               // line 9
    Local* found = lsl_.traverse([&](const Local& sb) { return sb.available_space() > sz; });  // line 10
    if (found != nullptr) lsl_.remove(found);
    if (found == nullptr) found = make_local(first ? Kind::kLocalFirst : Kind::kLocalLater);  // line 12
    local_.set(found);
    return found == nullptr ? 0 : found->allocate(sz);  // line 14
  }

  // Algorithm 2, lines 17-25.
  uptr allocate_shared_elsewhere(SharedClass& c, std::size_t sz) {
    const bool first = c.current.get() == nullptr && c.ssl.empty();
    if (Shared* exhausted = c.current.get()) c.ssl.insert(exhausted);  // line 17
    uptr ptr = 0;
    Shared* found = c.ssl.traverse([&](Shared& sb) { return (ptr = sb.probe()) != 0; });  // lines 18-21
    if (found != nullptr) {
      c.ssl.remove(found);
    } else {
      found = make_shared(first ? Kind::kSharedFirst : Kind::kSharedLater, sz);  // line 23
      if (found != nullptr) ptr = found->take_vacant();                          // line 24
    }
    c.current.set(found);
    return ptr;
  }

  // GetNewSBfromOS. Where 4 MiB are refused, 64 KiB may still be had.
  Local* make_local(Kind kind) {
    uptr address = source_->take(kind);
    if (address == 0 && !is_first(kind)) address = source_->take(kind = Kind::kLocalFirst);
    return address == 0 ? nullptr : Local::make(address, bytes_of<S>(kind), index_);
  }
  Shared* make_shared(Kind kind, std::size_t object) {
    uptr address = source_->take(kind);
    if (address == 0 && !is_first(kind)) address = source_->take(kind = Kind::kSharedFirst);
    return address == 0 ? nullptr : Shared::make(address, bytes_of<S>(kind), object, index_);
  }

  std::size_t trim_class(SharedClass& c) {
    std::size_t bytes = 0;
    if (Shared* current = c.current.get(); current != nullptr && !purge(*current)) {
      c.current.set(nullptr);
      bytes += give_back(*current, Kind::kSharedFirst, Kind::kSharedLater);
    }
    c.ssl.traverse([&](Shared& sb) {
      if (purge(sb)) return false;
      c.ssl.remove(&sb);
      bytes += give_back(sb, Kind::kSharedFirst, Kind::kSharedLater);
      return false;
    });
    return bytes;
  }

  // False: nothing is in use, the superblock may go.
  bool purge(Shared& sb) {
    const u32 in_use = sb.occupied();
    if (in_use == 0) return false;
    if (sb.purged.get() == sb.state(in_use)) return true;  // looking again, we would take zero pages for memory
    sb.purged.set(sb.state(in_use));
    sb.each_free_stretch([&](uptr from, uptr to) {
      from = align_up(from, source_->page());
      to = align_down(to, source_->page());
      if (from < to) source_->purge(from, to - from);
    });
    return true;
  }

  template <class Superblock> std::size_t give_back(Superblock& sb, Kind first, Kind later) {
    const std::size_t bytes = sb.size.get();
    source_->give(reinterpret_cast<uptr>(&sb), bytes == S::kFirst ? first : later);
    return bytes;
  }

  Source* source_ = nullptr;
  u32 index_ = 0;
  LateFrees<Env> late_;
  typename Env::template Plain<Local*> local_;
  SuperblockList<Env, Local> lsl_;
  SharedClass classes_[S::kClasses];
};

}  // namespace freeway::hmalloc
