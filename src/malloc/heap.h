// SPDX-License-Identifier: MIT
// Heap: small blocks: the layers put together.
//
// A small block's way: malloc pops it from the CPU's magazine (arch/*/fast_path.S); an empty magazine is refilled from
// the slab's current superblock (small.cc, cache/magazines.h); a superblock comes from a partial list or a run of frames
// (superblock/superblocks.h, pages/frames.h). free pushes it onto the magazine of the CPU it runs on; a full magazine is
// flushed to the superblocks' bitmaps.
//
// Who may enter: any thread, any signal handler that interrupted any instruction here, the child of any fork.
#pragma once

#include "background/helper.h"
#include "birth/births.h"
#include "cache/claimed_slabs.h"
#include "cache/cpu_slabs.h"
#include "cache/homes.h"
#include "cache/hot.h"
#include "cache/magazines.h"
#include "cache/owned_slabs.h"
#include "cache/quarantine.h"
#include "cache/rseq_slabs.h"
#include "cache/scattered.h"
#include "cache/way.h"
#include "heap/heaps.h"
#include "os/fault.h"
#include "pages/substrate.h"
#include "profile/profiler.h"
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
  u32 make_descriptor(unsigned c);
  uptr take_span(unsigned c, u32 descriptor);
  u32 descriptor_at(uptr span, unsigned c) const;
  void give_span(uptr span, unsigned c);
  static unsigned node();

 private:
  Heap* heap_ = nullptr;
  SuperblockKind kind_ = kOrdinary;
};

// The same for the heaps of one's own (heap/README.md), whose frames are of no class for the fast path.
class OwnFrames {
 public:
  void init(Heap* owner) { heap_ = owner; }
  void start(Limits<Machine>& limits) { records_.init(Metadata<Machine>::kSegmentBytes, &limits); }
  const Metadata<Machine>& records() const { return records_; }

  void* at(u32 index) const { return records_.at(index); }
  u32 make(u32 units) { return records_.take(units); }
  uptr take_frames(std::size_t frames, std::size_t alignment, u32 index, bool& zero);
  void give_frames(uptr address, std::size_t frames);
  FREEWAY_INLINE u32 cpu() const;
  static process::Claimant claimant() { return process::claimant(); }
  static bool interrupt_sections() { return process::interrupt_sections(); }
  static bool store_if(const Atomic<u64>& owner, Atomic<u64>& word, u64 expected, const Atomic<u64>& other, u64 others, u64 value) {
    return freeway_rseq_store_if(&owner, &word, expected, &other, others, value) != 0;
  }
  static u64 pop(const Atomic<u64>& owner, Atomic<u64>& top) { return freeway_rseq_pop_own(&owner, &top); }
  static FREEWAY_INLINE void* allocate(heap::Record<Machine>& heap, unsigned c, std::size_t bytes) {
    return freeway_rseq_malloc_own(&heap, entry(c), bytes);
  }
  static u64 give(heap::Record<Machine>& heap, unsigned c) { return freeway_rseq_give_own(&heap, entry(c)); }
  static heap::Laid lay(heap::Record<Machine>& heap, unsigned c, const heap::Slice<Machine>* slice, uptr address, u64 block) {
    return static_cast<heap::Laid>(freeway_rseq_lay_own(&heap, entry(c), address, slice, block));
  }
  inline u32 region_at(uptr block) const;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // see offsets.cc
  static constexpr u64 entry(unsigned c) {
    return offsetof(heap::Cache<Machine>, entries) + sizeof(heap::Entry<Machine>) * u64{c};
  }
#pragma GCC diagnostic pop

 private:
  static u32 register_cpu();
  Heap* heap_ = nullptr;
  Metadata<Machine> records_;
};

using OwnHeaps = heap::Heaps<Machine, OwnFrames>;

// The bytes and counts of one size class. occupancy: how many of its superblocks are up to 10 %, 20 %, … taken.
struct ClassAccount {
  u64 live_bytes, live_blocks, cached_bytes, cached_blocks, free_bytes, superblocks, mapped_bytes, blocks;
  u64 occupancy[occupancy::kTenths];
  u64 slow_mallocs, slow_frees, refills, flushes;
};

class Heap {  // all zero until start(): it takes no room in the file
 public:
  using Env = Machine;
  // --- Small blocks, for the rest of this folder. -------------------------------------------------------------------
  static Substrate::ClassByte* class_bytes() { return reinterpret_cast<Substrate::ClassByte*>(freeway_hot.frame_class); }

  bool start(Substrate& substrate);
  void* allocate(std::size_t bytes);
  void* allocate_aligned(std::size_t bytes, std::size_t alignment);
  Verdict free(uptr address, u32 descriptor);
  std::size_t usable(uptr address, u32 descriptor);
  bool begins_block(uptr address, u32 descriptor);
  void trim();
  // What may not fault later (reserve.cc): memory at start; memory for so many blocks, and for how many it is ready.
  void prefault(u64 bytes);
  std::size_t reserve(std::size_t bytes, std::size_t count);
  // For a thread that is about to sleep: empties its slab if nothing has changed there for a while.
  void idle(u64 now);
  // Whether bytes are counted for a profile is looked up again: profile/profiler.h says it (profile.cc).
  void follow_profile();
  // Now and then: the same if tracers have come or gone, or a follower was gone in the middle of it.
  void tick_profile();
  // The class of a request, 0 if it is not small: class_of_size by the fast path's tables.
  static FREEWAY_INLINE unsigned class_of_request(std::size_t bytes) {
    if (FREEWAY_LIKELY(bytes <= kByteTableMax)) return freeway_hot.byte_table[bytes];
    return bytes <= kMaxSmall ? freeway_hot.step_table[(bytes + low_bits(kStepTableShift)) >> kStepTableShift] : 0;
  }
  // Heaps of one's own (own_heaps.cc).
  OwnHeaps& own_heaps() { return own_heaps_; }

  // A block that is sampled; null: it cannot be, or there is no memory.
  void* allocate_sampled(std::size_t bytes);
  // The block of class `c` that malloc would give now; 0: it is not known. A hint.
  uptr next_block(unsigned c);
  // Does one of trim_parts() parts of what trim() does, the next one, or as much of it as `effort` lasts for, of which it takes
  // what it needs: a byte for each given back, and for other work by the time that it takes. Whether that part is done.
  bool trim_part(std::size_t& effort);
  unsigned trim_parts() const;
  // Takes caches apart; false if some could not be had.
  bool drain();
  // Bytes of its own tables, beside what the substrate's Metadata holds.
  u64 metadata_bytes() const { return slabs_bytes_.load_relaxed() + own_frames_.records().committed(); }
  void audit(freeway_audit_t& audit);
  bool owns(u32 descriptor, uptr address);
  void explain(uptr address, u32 descriptor, freeway_explanation_t& explanation);
  const char* explain_metadata(uptr address);
  // Of a small block: move.cc.
  void block_info(uptr block, u32 descriptor, freeway_block_info_t& info);
  bool should_move(uptr block, u32 descriptor);
  const char* mode() const;
  // Why claimed slabs are used; "" where they are not, or it is not known yet.
  const char* why_claimed() const { return uses_rseq() || why_claimed_ == nullptr ? "" : why_claimed_; }
  void describe(Line& line) const;
  void write_classes(int fd);
  void write_classes_json(int fd);

  // For the assembly: a freed block of class `c`, found good, whose magazine has no room; and when foreign blocks may be
  // on top of the magazine.
  void put_back(unsigned c, void* block);
  void send_home(unsigned c);

  // --- What the layers ask of each other. ---------------------------------------------------------------------------
  Superblocks<Machine, Backing>& superblocks() { return superblocks_; }
  Superblocks<Machine, Backing>& sampled_superblocks() { return sampled_; }
  Substrate& substrate() { return *substrate_; }
  Births<Machine>& births() { return births_; }
  Metadata<Machine>& metadata() { return substrate_->metadata(); }
  // The `top` of a class without a magazine: empty and full at once.
  u64 closed() const { return reinterpret_cast<u64>(&zeros_[1]); }
  // Whether bitmap words are changed without atomic instructions now: a hint, tested again where it matters.
  bool alone() const { return uses_rseq() && alone::holds(freeway_hot.alone.load_relaxed()); }
  // Where the freed block of class `c`, whose shape is `k`, lies; reports it if it is no block.
  FREEWAY_INLINE Place place_of(unsigned c, const SizeClass& k, void* block);
  // Frees the group's blocks to their superblock; reports double frees. `block` is one of them.
  FREEWAY_INLINE void free_group(unsigned c, const SizeClass& k, const Group& group, void* block);
  // Whether births say which blocks are live: with FREEWAY_HARDEN=1, and until it is known what is wanted.
  bool has_births() const { return !no_births_.load_relaxed(); }
  // The birth byte of a block of class `c`.
  Births<Machine>::Byte& birth_of(uptr block, unsigned c) const;
  // Whether the fast path must not see blocks there (birth/births.h).
  bool is_far(uptr address) const { return has_births() && substrate_->map().class_byte(address) == 0; }
  // Whether the block is another's than the slab's (cache/homes.h).
  bool is_foreign(const Slab& home, unsigned c, const void* block) const;
  // Whether there are several NUMA nodes; whether the block is of another one than that on which the slab is used.
  bool has_nodes() const { return superblocks_.has_nodes(); }
  bool is_away(const Slab& home, unsigned c, const void* block) const;
  // The slab that `home` is, or was a moment ago, holds superblock `d` of class `c` from now on.
  void settle_home(const Slab& home, unsigned c, u32 d);
  // Whether freed blocks rest, and are handed out in random order: FREEWAY_HARDEN=1.
  bool is_careful() const { return substrate_->options().harden != 0; }
  random::Stream random() { return random_.stream(process::claimant().survivor); }
  // Blocks that rested go back to their superblocks: with FREEWAY_HARDEN=1,fill names those that were written to.
  void leaves_rest(unsigned c, void* const* slots, unsigned count);
  // Whether the block's superblock is worth leaving (superblock/occupancy.h); how many free blocks a superblock has.
  bool is_left(unsigned c, const void* block);
  u32 free_in(u32 d) const;
  // What is left to do after the group's bits were set in a word that was `old`.
  void group_was_freed(unsigned c, const SizeClass& k, const Group& group, void* block, u64 old);

  // --- For accounting (account.cc). ---------------------------------------------------------------------------------
  template <class F>
  void each_slab(F&& f);  // f(Slab&, is_taken): all that exist; is_taken(): whether somebody has it
  bool uses_rseq() const { return mode_.peek() == kRseq || mode_.peek() == kOwnRseq; }
  // Whether this thread is registered for rseq by now.
  static bool can_enter_sections();
  ClassAccount account_of(unsigned only);  // 0: all classes
  // Calls f(top) for each of the class's magazines in the slab.
  template <class F>
  void each_magazine(Slab& slab, unsigned c, F&& f) const;

 private:
  friend struct Describe;  // malloc/describe.cc
  friend class Backing;
  enum Mode : u32 { kUndecided, kRseq, kOwnRseq, kClaimed };  // kOwnRseq: struct rseq is ours, not libc's

  // start.cc
  void fill_tables();
  void place_births();
  void decide_mode();
  // small.cc
  void* small_slow(unsigned c);
  void* small_direct(unsigned c);
  bool clear_way(unsigned c);
  Slab* own_slab();
  // The slab is used where the thread is.
  void follow(Slab& home) const {
    if (FREEWAY_UNLIKELY(has_nodes())) follow_node(home);
  }
  void follow_node(Slab& home) const;
  Slab* make_slab();
  std::size_t slab_bytes() const;
  void empty(Slab& slab);
  FREEWAY_NOINLINE void fill(unsigned c, uptr block);
  template <class F>
  bool with_claimed_slab(F&& f);
  // owned.cc
  Slab* settle();
  static const Slab* owned_slab();
  static uptr on_top(const Slab& slab, unsigned c);
  bool is_born(uptr block, unsigned c) const;
  bool is_free(uptr block, u32 descriptor, unsigned c);
  bool seems_free(uptr block, u32 descriptor, unsigned c);
  FREEWAY_NOINLINE Place place_elsewhere(unsigned c, void* block, u32 index);
  FREEWAY_NOINLINE void report_twice(const SizeClass& k, uptr span, unsigned word, u64 twice);
  // explain.cc
  const char* cache_of(unsigned c, uptr block);
  freeway_state_t state_of(unsigned c, u32 descriptor, u32 index, uptr block, const char*& what);
  // reserve.cc
  void provide_slabs();
  void give_filled(uptr address, std::size_t frames);
  std::size_t refill_kept(std::size_t frames, uptr highest, std::size_t most, uptr& top);
  void populate_used(unsigned c);
  std::size_t reserve_small(unsigned c, std::size_t count);
  std::size_t reserve_large(std::size_t frames, std::size_t count);
  // profile.cc
  void free_sampled(unsigned c, uptr block, u32 descriptor);
  // drain.cc
  void drain_own();
  void drain_owned(const process::Claimant& who);
  bool purge_class(unsigned c, std::size_t& effort);
  bool purge_class_of(Superblocks<Machine, Backing>& superblocks, unsigned c, std::size_t& effort);
  void purge_superblocks();
  // idle.cc
  void start_background();
  void care(background::Care care);
  bool has_resting(u64 now);
  void drain_resting(u64 now);
  void rest(Slab& slab);
  template <class F>
  void drain_claimed_if(bool (*wanted)(Slab&, u64 now), u64 now, F&& f);
  template <class F>
  void beside_program(F&& f);

  // In the order in which a small program touches the fewest pages, as in Substrate.
  Births<Machine> births_;
  Substrate* substrate_ = nullptr;
  Backing backing_;
  Once<Machine> births_place_, nodes_;
  Atomic<bool> no_births_;
  // kUndecided, then the mode, for good, when the environment can be read.
  Once<Machine> mode_;
  const char* why_claimed_ = nullptr;  // said by whoever found that the mode must be kClaimed
  Random<Machine> random_;
  Atomic<u32> next_part_;  // of trim_part
  u32 ids_ = 0;            // CPU numbers and concurrency ids are below it
  Atomic<u32> slabs_made_;
  Atomic<u64> slabs_bytes_;   // of all of them: early ones may be longer than later ones
  Atomic<bool> is_prepared_;  // slabs get their memory at once, since something was asked to be ready
  Atomic<u32> prefaulted_;    // whether somebody does, or has done, what FREEWAY_PREFAULT asks for
  Atomic<u64> null_slab_[kSlabHeadWords];
  Atomic<u64> zeros_[3];
  Magazines<Heap> magazines_;
  Scattered<Heap> scattered_;
  Quarantine<Heap> quarantine_;
  Way<Heap> way_;
  Superblocks<Machine, Backing> superblocks_;
  Backing sampled_backing_;
  Superblocks<Machine, Backing> sampled_;
  OwnedSlabs<Machine> owned_;
  ClaimedSlabs<Machine> claimed_;
  CpuSlabs<Machine> cpu_slabs_;
  ClassUsage<Machine> usage_;
  OwnFrames own_frames_;
  OwnHeaps own_heaps_;
};

// What revoking a slab from another thread needs of the kernel (owned_slabs.h).
struct Revoker {
  static bool barrier() { return process::make_barrier(); }
  static bool is_inside(u64 name);
};

inline u32 OwnFrames::cpu() const {
  if (!heap_->uses_rseq()) return heap::kNoCpu;
  const auto thread = reinterpret_cast<uptr>(__builtin_thread_pointer());
  if (FREEWAY_UNLIKELY(*reinterpret_cast<const volatile int*>(thread + freeway_hot.any_rseq + RSEQ_CPU_ID) < 0))
    return register_cpu();
  return *reinterpret_cast<const volatile u32*>(thread + freeway_hot.any_id);
}

inline u32 OwnFrames::region_at(uptr block) const { return heap_->substrate().map().get(block).value(); }

inline Descriptor<Machine>& Backing::descriptor(u32 index) const {
  return *static_cast<Descriptor<Machine>*>(heap_->metadata().at(index));
}

inline Births<Machine>::Byte& Heap::birth_of(uptr block, unsigned c) const {
  return FREEWAY_UNLIKELY(is_far(block)) ? births_.far(block) : births_.near(block, kSizeClasses[c].size);
}

// The home of a frame of the primary arena.
inline Atomic<u8>& home_of(uptr address) {
  const uptr frame = (address - freeway_hot.arena.load_relaxed()) >> kFrameShift;
  return reinterpret_cast<Atomic<u8>*>(freeway_hot.home)[frame];
}

inline bool Heap::is_foreign(const Slab& home, unsigned c, const void* block) const {
  const auto address = reinterpret_cast<uptr>(block);
  return substrate_->map().class_byte(address) != 0 && home.home[c].load_relaxed() != home_of(address).load_relaxed();
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
  if (FREEWAY_UNLIKELY(twice != 0)) report_twice(k, span, group.word(), twice);
}

inline void Heap::group_was_freed(unsigned c, const SizeClass& k, const Group& group, void* block, u64 old) {
  const uptr span = k.span_of(reinterpret_cast<uptr>(block));
  const u64 twice = superblocks_.was_freed(c, group.descriptor(), span, group.word(), group.mask, old);
  if (FREEWAY_UNLIKELY(twice != 0)) report_twice(k, span, group.word(), twice);
}

template <class F>
void Heap::each_slab(F&& f) {
  const process::Claimant who = process::claimant();
  for (u32 id = 0; id < ids_; ++id)
    if (Slab* slab = cpu_slabs_.made(id)) f(*slab, [&] { return cpu_slabs_.is_taken(id, who); });
  for (unsigned n = 0; n < claimed_.kSlabs; ++n)
    if (Slab* slab = claimed_.slab(n)) f(*slab, [&] { return claimed_.is_taken(n, who); });
  for (unsigned n = 0; n < owned_.kSeats; ++n)
    if (Slab* slab = owned_.slab(n)) f(*slab, [&] { return owned_.is_taken(n, who, Revoker::is_inside); });
}

template <class F>
void Heap::each_magazine(Slab& slab, unsigned c, F&& f) const {
  f(slab.top[c].load_relaxed());
  if (!is_careful()) return;
  for (u32 bed = 0; bed <= quarantine_.beds(c); ++bed) f(quarantine::top(slab, c, bed).load_relaxed());
}

}  // namespace freeway
