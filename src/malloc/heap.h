// SPDX-License-Identifier: MIT
// Heap: small blocks: the layers put together.
//
// A small block's way: malloc pops it from the CPU's magazine (arch/*/fast_path.S); an empty magazine is refilled from
// the slab's current superblock (small.cc, cache/magazines.h); a superblock comes from a partial list or a run of
// frames (superblock/superblocks.h, pages/frames.h). free pushes it onto the magazine of the CPU it runs on; a full
// magazine is flushed to the superblocks' bitmaps.
//
// Who may enter: any thread, any signal handler that interrupted any instruction here, the child of any fork.
#pragma once

#include "arch/rseq_place.h"
#include "cache/homes.h"
#include "cache/hot.h"
#include "cache/loans.h"
#include "cache/magazines.h"
#include "cache/way.h"
#include "harden/births.h"
#include "harden/quarantine.h"
#include "harden/scattered.h"
#include "heap/heaps.h"
#include "malloc/own_sections.h"
#include "malloc/slabs.h"
#include "os/fault.h"
#include "pages/substrate.h"
#include "superblock/class_usage.h"
#include "superblock/superblocks.h"

namespace freeway {

class Heap;

// What free did with an address; anything but kOk: nothing, and the caller reports it.
using Verdict = Fault;

// Superblocks for all, and others for the blocks that a profile samples, whose frees are to leave the fast path.
enum SuperblockKind : u32 { kOrdinary, kSampled };

// Where superblocks' spans and descriptors come from (see superblocks.h).
class Backing {
 public:
  void init(Heap* owner, SuperblockKind kind) {
    heap_ = owner;
    kind_ = kind;
  }
  static const SizeClass& size_class(unsigned c) { return kSizeClasses[c]; }
  Descriptor<Machine>& descriptor(u32 index) const;
  FREEWAY_COLD u32 make_descriptor(unsigned c);
  uptr take_span(unsigned c, u32 descriptor);
  u32 descriptor_at(uptr span, unsigned c) const;
  void give_span(uptr span, unsigned c);
  static unsigned node();

 private:
  Heap* heap_ = nullptr;
  SuperblockKind kind_ = kOrdinary;
};

// What the fast path reads of each frame of the primary arena.
inline Substrate::FrameBytes* frame_bytes() {
  return reinterpret_cast<Substrate::FrameBytes*>(freeway_hot.frame_bytes);
}

// The class of the blocks in a frame of the primary arena, or of a block there; 0: it is in no superblock of the fast
// path's.
FREEWAY_INLINE unsigned class_of_frame(uptr frame) {
  return FREEWAY_LIKELY(frame < kPrimaryFrames) ? frame_bytes()[frame].size_class.load_relaxed() : 0;
}
FREEWAY_INLINE unsigned class_of_block(const void* block) {
  return class_of_frame((reinterpret_cast<uptr>(block) - freeway_hot.arena.load_relaxed()) >> kFrameShift);
}

// The class of a request, 0 if it is not small: class_of_size by the fast path's tables.
FREEWAY_INLINE unsigned class_of_request(std::size_t bytes) {
  if (FREEWAY_LIKELY(bytes <= kByteTableMax)) return freeway_hot.byte_table[bytes];
  return bytes <= kMaxSmall ? freeway_hot.step_table[(bytes + low_bits(kStepTableShift)) >> kStepTableShift] : 0;
}

class Heap {  // all zero until start(): it takes no room in the file
 public:
  using Env = Machine;

  // --- Small blocks, for the rest of this folder. Sizes are bytes. ---------------------------------------------------

  // start.cc: the tables; then, when the environment can be read, the options. The fast path opens with them.
  void start(Substrate& substrate);
  void open();
  // Off the fast path; null: no memory.
  void* allocate(std::size_t bytes);
  Verdict free(uptr address, u32 descriptor);
  // 0: no live block begins there, as far as is known.
  std::size_t usable(uptr address, u32 descriptor);
  bool begins_block(uptr address, u32 descriptor) const;
  // A freed block of class `c`, found good, whose magazine has no room.
  void put_back(unsigned c, void* block);
  // Foreign blocks may be on top of the magazine (cache/homes.h).
  void send_home(unsigned c);
  // See cache/way.h.
  FREEWAY_COLD bool clear_way(unsigned c);
  // Empties a slab that the caller has to itself: all of it, or all but the blocks that are to rest.
  void empty(Slab& slab);
  void empty_magazines(Slab& slab) { magazines_.empty(slab); }
  // Empties the slab of the CPU that each section happens to run on, in sections.
  void empty_in_sections();

  Substrate& substrate() { return *substrate_; }
  // Those of sampled blocks; made at the first one, so that a process without a profile touches no page for them.
  FREEWAY_COLD Superblocks<Machine, Backing>& sampled_superblocks();
  // Calls f(superblocks) for those of each kind that there is.
  template <class F> void each_superblocks(F&& f) {
    f(superblocks_);
    if (has_sampled_.peek() != 0) f(sampled_);
  }
  Descriptor<Machine>& descriptor(u32 index) const { return backing_.descriptor(index); }

  // --- For the layers below (their concepts). ------------------------------------------------------------------------

  Superblocks<Machine, Backing>& superblocks() { return superblocks_; }
  u64 closed() const { return slabs.closed(); }
  // Whether bitmap words are changed without atomic instructions now: a hint, tested again where it matters.
  bool alone() const { return slabs.uses_rseq() && alone::holds(freeway_rseq.alone.load_relaxed()); }
  // Where the freed block of class `c`, whose shape is `k`, lies; reports it if it is no block.
  FREEWAY_INLINE Place place_of(unsigned c, const SizeClass& k, void* block);
  // Frees the group's blocks to their superblock; reports double frees. `block` is one of them.
  FREEWAY_INLINE void free_group(unsigned c, const SizeClass& k, const Group& group, void* block);
  // The rest of free_group, after the group's bits were set in a word that was `old`.
  void group_was_freed(unsigned c, const SizeClass& k, const Group& group, void* block, u64 old);
  // The birth byte of a block of class `c`.
  Births<Machine>::Byte& birth_of(uptr block, unsigned c) const;
  // Whether the fast path must not see blocks there (harden/births.h).
  bool is_far(uptr address) const { return births.are_kept() && substrate_->map().class_byte(address) == 0; }
  // Whether the block is another's than the slab's (cache/homes.h).
  bool is_foreign(const Slab& slab, unsigned c, const void* block) const;
  // Whether there are several NUMA nodes; whether the block is of another one than that on which the slab is used.
  bool has_nodes() const { return superblocks_.has_nodes(); }
  bool is_away(const Slab& slab, unsigned c, const void* block) const;
  // From now on the slab, or another that the thread has come to, holds superblock `d` of class `c`.
  void settle_home(const Slab& slab, unsigned c, u32 d);
  // Whether freed blocks rest, and are handed out in random order: FREEWAY_HARDEN=1.
  bool is_careful() const { return substrate_->options().harden != 0; }
  FREEWAY_COLD random::Stream random() { return random_.stream(process::claimant().survivor); }
  // Blocks that rested go back to their superblocks: with FREEWAY_HARDEN=1,fill names those that were written to.
  FREEWAY_COLD void leaves_rest(unsigned c, void* const* slots, unsigned count);
  // Whether the block's superblock is worth leaving (superblock/occupancy.h); how many free blocks a superblock has.
  bool is_left(unsigned c, const void* block);
  u32 free_in(u32 d) const;

  // --- Parts that others may use, and all others, in the order in which a small program touches the fewest pages. ----

  Births<Machine> births;
  Loans<Machine> loans;

 private:
  void fill_tables();
  void place_births();
  void* refill(unsigned c);
  FREEWAY_COLD void* direct(unsigned c);
  bool is_free(uptr block, u32 descriptor, unsigned c);
  bool seems_free(uptr block, u32 descriptor, unsigned c);
  FREEWAY_COLD Place place_elsewhere(unsigned c, void* block, u32 index);

  Substrate* substrate_ = nullptr;
  Backing backing_;
  Once<Machine> births_place_, nodes_, has_sampled_;
  Random<Machine> random_;
  Magazines<Heap> magazines_;
  Scattered<Heap> scattered_;
  Quarantine<Heap> quarantine_;
  Way<Heap> way_;
  Superblocks<Machine, Backing> superblocks_;
  Backing sampled_backing_;
  Superblocks<Machine, Backing> sampled_;

 public:
  Slabs slabs;
  ClassUsage<Machine> usage;                    // move.cc
  [[no_unique_address]] heap::Heaps own_heaps;  // the program's; what follows lies on its last page
};

// Compiled once, in small.cc.
extern template class Superblocks<Machine, Backing>;
extern template class Magazines<Heap>;
extern template class Quarantine<Heap>;
extern template class Scattered<Heap>;
extern template class Way<Heap>;

inline Descriptor<Machine>& Backing::descriptor(u32 index) const {
  return *static_cast<Descriptor<Machine>*>(heap_->substrate().metadata().at(index));
}

inline Births<Machine>::Byte& Heap::birth_of(uptr block, unsigned c) const {
  return FREEWAY_UNLIKELY(is_far(block)) ? births.far(block) : births.near(block, kSizeClasses[c].size);
}

// The home of a frame of the primary arena.
inline Atomic<u8>& home_of(uptr address) {
  const uptr frame = (address - freeway_hot.arena.load_relaxed()) >> kFrameShift;
  return frame_bytes()[frame].home;
}

// Heap::usable of any address, while free's fast path is open; 0: this does not know.
FREEWAY_INLINE std::size_t usable_open(Heap& heap, uptr address) {
  const uptr frame = (address - freeway_hot.arena.load_relaxed()) >> kFrameShift;
  if (FREEWAY_UNLIKELY(frame >= freeway_hot.frames.load_relaxed())) return 0;
  const unsigned c = frame_bytes()[frame].size_class.load_relaxed();
  if (FREEWAY_UNLIKELY(!may_begin(address, c))) return 0;
  const SizeClass& k = kSizeClasses[c];
  const u32 descriptor = heap.substrate().map().get_primary(frame).value();
  if (FREEWAY_UNLIKELY(heap.superblocks().is_free(descriptor, k.index_of(address & freeway_hot.span_mask[c]))))
    return 0;
  if (FREEWAY_UNLIKELY(!rseq_is_registered(freeway_rseq.area))) return 0;
  const Slab& slab = *freeway_hot.slab_of[rseq_index()].load_relaxed();
  return FREEWAY_LIKELY(slab_words::on_top(slab, c) != address) ? k.size : 0;
}

inline bool Heap::is_foreign(const Slab& slab, unsigned c, const void* block) const {
  const auto address = reinterpret_cast<uptr>(block);
  return substrate_->map().class_byte(address) != 0 && slab.home[c].load_relaxed() != home_of(address).load_relaxed();
}

inline Place Heap::place_of(unsigned c, const SizeClass& k, void* block) {
  const auto address = reinterpret_cast<uptr>(block);
  const u32 index = k.block_at(address);
  if (FREEWAY_LIKELY(index != SizeClass::kNoBlock))
    if (const u32 descriptor = substrate_->map().value_of_primary(address, c)) return {descriptor, index};
  return place_elsewhere(c, block, index);
}

inline void Heap::free_group(unsigned c, const SizeClass& k, const Group& group, void* block) {
  const uptr span = k.span_of(reinterpret_cast<uptr>(block));
  const u64 twice = superblocks_.free_group(c, group.descriptor(), span, group.word(), group.mask);
  if (FREEWAY_UNLIKELY(twice != 0)) report_twice(span, k.size, group.word(), twice, substrate_->options().report_only);
}

inline void Heap::group_was_freed(unsigned c, const SizeClass& k, const Group& group, void* block, u64 old) {
  const uptr span = k.span_of(reinterpret_cast<uptr>(block));
  const u64 twice = superblocks_.was_freed(c, group.descriptor(), span, group.word(), group.mask, old);
  if (FREEWAY_UNLIKELY(twice != 0)) report_twice(span, k.size, group.word(), twice, substrate_->options().report_only);
}

}  // namespace freeway
