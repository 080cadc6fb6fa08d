// SPDX-License-Identifier: MIT
// Heaps: the program's heaps: made, used by any thread, limited, counted, and given back whole.
//
// Words     of the records: registry.h.   descriptors_, slabs_: those that are no heap's
// Who       create, destroy, find, allocate, free, visit_each: any thread, any signal handler, the child of any fork
// Visits    the malloc works on heaps that the program may destroy meanwhile by visit_each only (visit.h): then the
//           visitor ends the heap
// Contract  nobody uses a heap, or a block of it, while or after it is destroyed. Use after destroy may return or free
//           another heap's block, as any use of a block after its free. Use during destroy may corrupt the tables
// Progress  lock-free; destroy: as many steps as the heap has frames and slabs
// Lost if killed: create: the record. destroy: what it had not given back
// Checked   tests/heap/registry_model.cc, tests/abi/heap_test.cc
#pragma once

#include "base/function_ref.h"
#include "heap/own_heap.h"
#include "heap/registry.h"
#include "os/random.h"

namespace freeway::heap {

constexpr u32 kMostIds = 8192;
constexpr u32 kNoCpu = ~u32{0};

enum class Freed { kOk, kTwice, kInterior };

struct Figures {
  u64 live_bytes, live_blocks, free_bytes, held_bytes, limit, refusals, whole_blocks;
};

// What the heaps need to know of the malloc.
struct Surroundings {
  u64 (*give)(const void* heap, std::size_t,
              u64 c);      // the section on this CPU's slab: a block of the magazine or the strip, 0: there is none
  u32 ids;                 // CPU numbers are below it, or have no slabs
  bool direct;             // no slabs, so that each double free is seen at once, and blocks in random order
  bool (*has_sections)();  // whether this thread can enter sections
  u64 closed;              // see Magazines
  random::Stream (*random)();
};

class Heaps {
 public:
  // By all who take part in initialisation, with the same values.
  void init(Substrate* substrate);
  void start(const Surroundings& surroundings);

  // The handle of a new heap; 0: no memory. `limit`: frames; 0, or more than can be counted: none. `name`: copied as
  // far as there is room; may be null.
  u64 create(u64 limit, const char* name);
  // The heap of a handle; null: it is none any more.
  static FREEWAY_INLINE OwnHeap* find(u64 handle) { return RegistryOf::find(handle); }
  // Gives back the heap and all its blocks, or has its visitor do it; gone(run) sees each strip and large block. False:
  // the handle is none.
  using Gone = void (*)(const Run<Machine>& run);
  bool destroy(u64 handle, Gone gone);
  // See registry.h; `gone`: for what the program destroys meanwhile.
  u32 visit_each(u32 from, FunctionRef<bool(OwnHeap&)> visit, Gone gone);

  // A block of class `c`; null: no memory, or the limit.
  void* allocate(OwnHeap& heap, unsigned c) { return is_direct() ? heap.allocate_direct(c) : heap.allocate(c); }
  // The same, at a multiple of `alignment`, a power of two which divides the class's size: of a superblock, if there is
  // room.
  void* allocate_aligned(OwnHeap& heap, unsigned c, std::size_t alignment);
  // A block that is a run of frames.
  void* allocate_whole(OwnHeap& heap, std::size_t frames, std::size_t alignment, bool& zero);
  // Frees the block at an address in a frame whose entry names the record `index`. `was_whole`: it was one, and is free
  // now.
  Freed free(u32 index, uptr address, bool& was_whole);

  // Whose small block begins at the address, and its class, which is 0 if none does that is not known to be free.
  struct Small {
    OwnHeap* heap;
    unsigned size_class;
  };
  FREEWAY_INLINE Small small_at(u32 index, uptr address) const {
    const auto& d = *static_cast<const Descriptor<Machine>*>(frames_.at(index));
    if (const unsigned c = d.size_class.load_relaxed()) {
      return {heap_of(d.heap.load_relaxed()), may_begin(address, c) ? c : 0};
    }
    const auto& run = *static_cast<const Run<Machine>*>(frames_.at(index));
    const u8 kind = run.is_whole.load_relaxed() != 0 ? 0 : StripsOf::kind_at(run, address);
    return {heap_of(run.heap.load_relaxed()), strip::is_plain(kind) ? kind : 0u};
  }

  // The run in which the address lies; null: it lies in a superblock.
  Run<Machine>* run_at(u32 index) const {
    auto& run = strips_.at(index);
    return run.size_class.load_relaxed() == 0 ? &run : nullptr;
  }

  // What is known of the block that the address lies in.
  struct Block {
    OwnHeap* heap;
    uptr address;            // where it begins; 0: the address lies in none
    std::size_t bytes;       // its length
    bool is_whole, is_free;  // free: its superblock or strip has it, which is never so of a block that is the caller's
    unsigned size_class;
  };
  Block block_around(u32 index, uptr address) const;
  // Whether a CPU seems to have the block in hand: for explanations only, since others go on meanwhile.
  static bool seems_in_hand(const Block& block);

  // Exact while nobody else uses the heap.
  Figures figures(const OwnHeap& heap) const;

  // Whether what CPUs have in hand of a heap has not changed for a while (cache/slab_age.h); collect takes it away.
  static bool is_idle(OwnHeap& heap, u64 now);
  // Calls f(heap) for each that exists.
  template <class F> void each(F&& f) { registry_.each(*this, f); }
  u64 table_bytes() const { return frames_.records().committed(); }

  // --- For OwnHeap. --------------------------------------------------------------------------------------------------
  using StripsOf = Strips<Machine, FrameSource>;
  FrameSource& frames() { return frames_; }
  StripsOf& strips() { return strips_; }
  const Surroundings& surroundings() const { return surroundings_; }
  bool is_direct() const { return surroundings_.direct; }
  // The CPU's number; kNoCpu: no section can be entered.
  u32 cpu() const;
  TaggedStack<Machine>& spare_slabs(u32 id) { return slabs_[id]; }
  TaggedStack<Machine>& spare_descriptors(unsigned c) { return descriptors_[c]; }

  OwnHeap& at(u32 index) const { return *static_cast<OwnHeap*>(frames_.at(index)); }
  u32 make_record();

 private:
  using RegistryOf = Registry<Machine, OwnHeap, Heaps>;
  static constexpr unsigned kMostOthers = 2 * kKiB / kMinBlock;
  static OwnHeap* heap_of(u64 word) { return reinterpret_cast<OwnHeap*>(word); }
  void end(OwnHeap& heap, Gone gone);
  TaggedStack<Machine> slabs_[kMostIds];           // slabs of each CPU that are no heap's
  TaggedStack<Machine> descriptors_[kClassCount];  // those that are no heap's
  // On one page with what follows, which each process writes at its start.
  alignas(4 * kKiB) Surroundings surroundings_ = {};
  FrameSource frames_;
  StripsOf strips_;
  RegistryOf registry_;
};

inline Descriptor<Machine>& Spans::descriptor(u32 index) const {
  return *static_cast<Descriptor<Machine>*>(heaps_->frames().at(index));
}

}  // namespace freeway::heap
