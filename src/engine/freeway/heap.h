// SPDX-License-Identifier: MIT
// Heap: the flagship engine: the layers put together, and what the C ABI calls.
//
// A small block's way: malloc pops it from the CPU's magazine (arch/*/fast_path.S); an empty magazine is refilled from
// the slab's current superblock (small.cc, cache/magazines.h); a superblock comes from a partial list or a run of frames
// (superblock/superblocks.h, pages/frames.h). free pushes it onto the magazine of the CPU it runs on; a full magazine is
// flushed to the superblocks' bitmaps.
//
// Who may enter: any thread, any signal handler that interrupted any instruction here, the child of any fork.
#pragma once

#include "cache/claimed_slabs.h"
#include "cache/hot.h"
#include "cache/magazines.h"
#include "cache/rseq_slabs.h"
#include "os/machine.h"
#include "os/options.h"
#include "pages/large.h"
#include "pages/metadata.h"
#include "superblock/superblocks.h"

namespace freeway {

class Heap;

// Where superblocks' spans and descriptors come from (see superblocks.h).
class Backing {
 public:
  void init(Heap* owner) { heap_ = owner; }
  static const SizeClass& size_class(unsigned c) { return kSizeClasses[c]; }
  Descriptor<Machine>& descriptor(u32 index) const;
  u32 make_descriptor(unsigned c);
  uptr take_span(unsigned c, u32 descriptor);
  void give_span(uptr span, unsigned c);

 private:
  Heap* heap_ = nullptr;
};

// What a program did wrong with a pointer.
enum class Fault { kDoubleFree, kForeign, kMisaligned, kInterior };

class Heap {  // all zero until start(): it takes no room in the file
 public:
  // --- The engine's interface. `caller` is the return address that reports name. Sizes are bytes. -----------------
  void* malloc_slow(std::size_t size, const void* caller);
  void free_slow(void* block, const void* caller);
  // free() for the library's own calls: reports name `caller`, not a place in here.
  void free(void* block, const void* caller);
  void* allocate_aligned(std::size_t size, std::size_t alignment);  // alignment: a power of two
  void* allocate_zeroed(std::size_t size);
  void* reallocate(void* block, std::size_t size, const void* caller);
  std::size_t usable_size(const void* block, const void* caller);
  std::size_t allocate_batch(std::size_t size, std::size_t count, void** blocks);

  // Gives memory without live blocks back, keeping about `keep` bytes ready; bytes given back.
  std::size_t trim(std::size_t keep);

  // --- What the layers ask of each other. ---------------------------------------------------------------------------
  Superblocks<Machine, Backing>& superblocks() { return superblocks_; }
  Frames<Machine>& frames() { return frames_; }
  PageMap<Machine>& map() { return map_; }
  Metadata<Machine>& metadata() { return metadata_; }
  LargeBlocks<Machine>& large() { return large_; }
  const Options& options() const { return options_; }
  // The `top` of a class without a magazine: empty and full at once.
  u64 closed() const { return reinterpret_cast<u64>(&zeros_[1]); }
  // Where the freed block of class `c`, whose shape is `k`, lies; reports it if it is no block.
  FREEWAY_INLINE Place place_of(unsigned c, const SizeClass& k, void* block);
  // Frees the group's blocks to their superblock; reports double frees. `block` is one of them.
  FREEWAY_INLINE void free_group(unsigned c, const SizeClass& k, const Group& group, void* block);

  // --- For accounting (account.cc). ---------------------------------------------------------------------------------
  template <class F>
  void each_slab(F&& f);  // f(Slab&): all that exist, claimed, drained or not
  bool uses_rseq() const { return mode_.load_relaxed() == kRseq; }
  bool ready() const { return ready_.load_relaxed() != 0; }
  u64 large_blocks() const { return large_count_.load_relaxed(); }

  // Initialises what can be by now. False: there is no memory to begin with.
  bool start();

 private:
  friend class Backing;
  enum Mode : u32 { kUndecided, kRseq, kClaimed };

  // start.cc
  bool reserve_primary();
  void fill_tables();
  void decide_mode();
  // small.cc
  void* small_slow(unsigned c);
  void* small_direct(unsigned c);
  void* small_random(unsigned c);
  void free_small_slow(void* block, FrameInfo info, const void* caller);
  Slab* own_slab();
  Slab* make_slab();
  bool seize(u32 id);
  void unseize(u32 id) { exclusive_[id].store_release(0); }  // [R1] pairs with small.cc:[A1]
  template <class F>
  bool with_claimed_slab(F&& f);
  // sized.cc
  void* large_block(std::size_t size, std::size_t alignment, bool* zero);
  void free_large(void* block, FrameInfo info, const void* caller);
  std::size_t small_size(uptr address, FrameInfo info);
  void* move_block(void* block, std::size_t old_size, std::size_t size, const void* caller);
  // drain.cc
  bool drain();
  void drain_own();
  void scavenge();
  // bad_pointer.cc
  Fault classify(const void* pointer);
  FREEWAY_NOINLINE Place place_elsewhere(unsigned c, void* block, u32 index);
  FREEWAY_NOINLINE void report_twice(const SizeClass& k, uptr span, unsigned word, u64 twice);
  void report(Fault fault, const char* function, const void* pointer, const void* caller);

  Backing backing_;
  Superblocks<Machine, Backing> superblocks_;
  Magazines<Heap> magazines_;
  Metadata<Machine> metadata_;
  Frames<Machine> frames_;
  PageMap<Machine> map_;
  LargeBlocks<Machine> large_;
  ClaimedSlabs<Machine> claimed_;
  Options options_;

  // Word      primary_: 0 -> address | log2(bytes) of the reservation (CAS); the loser of a race gives his back
  //           mode_: kUndecided -> the mode (CAS), when the environment can be read
  //           exclusive_[id]: 0, or a thread that is not in this process, -> the own word (process::Claimant; CAS) -> 0.
  //           Its holder alone stores slab_of[id] and slabs_[id]; killed, it leaves that CPU on the claimed slabs until
  //           the next fork
  Atomic<u64> primary_;
  Atomic<u32> mode_;
  Atomic<u32> ready_;
  Atomic<u64> large_count_;
  Atomic<u64> random_;
  u32 ids_ = 0;  // CPU numbers and concurrency ids are below it
  Atomic<u64> exclusive_[HOT_IDS];
  Atomic<Slab*> slabs_[HOT_IDS];
  Atomic<u64> null_tops_[Slab::kClasses];
  Atomic<u64> zeros_[3];
  Chunk<Machine> chunks_[kPrimaryBytes / kChunkSize];
  u32 frame_infos_[kPrimaryFrames] = {};  // an Atomic<u32> each, see hot.h
};

extern FREEWAY_HIDDEN Heap process_heap;

inline Descriptor<Machine>& Backing::descriptor(u32 index) const {
  return *static_cast<Descriptor<Machine>*>(heap_->metadata_.at(index));
}

inline Place Heap::place_of(unsigned c, const SizeClass& k, void* block) {
  const auto address = reinterpret_cast<uptr>(block);
  const u32 index = k.block_at(address);
  if (FREEWAY_LIKELY(index != SizeClass::kNoBlock && map_.is_primary_of(address, c)))
    return {map_.get(address).value(), index};
  return place_elsewhere(c, block, index);
}

inline void Heap::free_group(unsigned c, const SizeClass& k, const Group& group, void* block) {
  const uptr span = k.span_of(reinterpret_cast<uptr>(block));
  const u64 twice = superblocks_.free_group(c, group.descriptor, span, group.word, group.mask);
  if (FREEWAY_UNLIKELY(twice != 0)) report_twice(k, span, group.word, twice);
}

template <class F>
void Heap::each_slab(F&& f) {
  for (u32 id = 0; id < ids_; ++id)
    if (Slab* slab = slabs_[id].load_acquire()) f(*slab);  // [A2] pairs with small.cc:[R2]
  for (unsigned n = 0; n < claimed_.kSlabs; ++n)
    if (Slab* slab = claimed_.slab(n)) f(*slab);
}

}  // namespace freeway
