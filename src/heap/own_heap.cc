// SPDX-License-Identifier: MIT
#include "heap/own_heap.h"

#include "heap/heaps.h"
#include "os/fault.h"

namespace freeway::heap {

namespace {

constexpr std::array<u32, kClassCount> make_strip_sizes() {
  std::array<u32, kClassCount> sizes{};
  for (unsigned c = 0; c < kClassCount; ++c) sizes[c] = has_strips(c) ? kSizeClasses[c].size : ~u32{0};
  return sizes;
}

}  // namespace

// For the sections: bytes of the blocks of each class that strips have; else more than any strip has.
extern "C" FREEWAY_HIDDEN constinit const std::array<u32, kClassCount> freeway_strip_sizes;
constinit const std::array<u32, kClassCount> freeway_strip_sizes = make_strip_sizes();

namespace {

HeapSlab* in_place(const Atomic<u64>& place) {
  const u64 there = SlabPlace<Machine>::there(place);
  return there == freeway_hot.null_slab ? nullptr : reinterpret_cast<HeapSlab*>(there);
}

u64 bottom(HeapSlab& slab, unsigned c) { return reinterpret_cast<u64>(&slab) + HeapShapes::offset_of_small(c); }

bool store_if(const void* table, u64 offset, u64 expected, u64 other, u64 value) {
  return freeway_rseq_store_if(table, offset, expected, other, value) == 1;
}

}  // namespace

// --- Frames and superblocks. -----------------------------------------------------------------------------------------

uptr FrameSource::take_frames(std::size_t frames, std::size_t alignment, u32 index, bool& zero) {
  const freeway::Run run = substrate_->frames().take(frames, alignment);
  if (!run) return 0;
  Machine::step("own.taken");
  zero = run.dirty == 0;
  if (substrate_->map().set(run.address, frames, FrameInfo::of_heap(index), 0)) return run.address;
  substrate_->frames().give(run.address, frames, process::coarse_time_ns());
  return 0;
}

void FrameSource::give_frames(uptr address, std::size_t frames) {
  substrate_->map().clear(address, frames);
  Machine::step("own.cleared");
  substrate_->frames().give(address, frames, process::coarse_time_ns());
}

u32 Spans::make_descriptor(unsigned c) {
  FrameSource& frames = heaps_->frames();
  u32 index = heaps_->spare_descriptors(c).pop(frames.links<Descriptor<Machine>>());
  const std::size_t bytes = Descriptor<Machine>::bytes(kSizeClasses[c].words);
  if (index == 0 && (index = frames.make(static_cast<u32>(bytes / Metadata<Machine>::kUnit))) == 0) return 0;
  Descriptor<Machine>& desc = descriptor(index);
  desc.heap.store_relaxed(reinterpret_cast<u64>(heap_));
  desc.span.store_relaxed(0);
  desc.size_class.store_relaxed(c);
  heap_->superblocks_made.push(index, frames.nexts<Descriptor<Machine>>());
  return index;
}

// Whoever destroys the heap finds the frames by the span and the map's entry.
uptr Spans::take_span(unsigned c, u32 index) {
  const u32 frames = kSizeClasses[c].span_frames;
  if (!heap_->charge(frames)) return 0;
  bool zero;
  const uptr span = heaps_->frames().take_frames(frames, frames, index, zero);
  if (span == 0) return heap_->uncharge(frames), 0;
  descriptor(index).span.store_relaxed(span);
  return span;
}

void Spans::give_span(uptr span, unsigned c) {
  const u32 frames = kSizeClasses[c].span_frames;
  heaps_->frames().give_frames(span, frames);
  heap_->uncharge(frames);
}

void OwnHeap::init(Heaps* heaps, u32 index, u32 count) {
  heaps_ = heaps;
  self.store_relaxed(index);
  ids.store_relaxed(count);
  spans_.init(heaps, this);
  superblocks_.init(&spans_);
  magazines_.init(this);
  for (u32 id = 0; id < count; ++id) slab_of[id].store_relaxed(freeway_hot.null_slab);
}

// --- malloc ----------------------------------------------------------------------------------------------------------

void* OwnHeap::allocate(unsigned c) {
  HeapSlab* slab = own_slab();
  if (slab == nullptr) return allocate_direct(c);
  if (const u64 block = heaps_->surroundings().give(this, 0, c))
    return reinterpret_cast<void*>(block);  // the thread has moved
  return refill(*slab, c);
}

// Where blocks of class `c` come from. Strips while the heap is young, or too small for superblocks of the class;
// `has_some`: there are such superblocks in hand; `may_open`: there may be one more strip for small blocks.
OwnHeap::Source OwnHeap::source_of(unsigned c, bool has_some, bool may_open) {
  if (has_some || !superblocks_.lists().look_empty(c, 0)) return kSuperblocks;
  // Few frames serve more sizes as strips, where one superblock of each size would be all there is.
  const u64 limit = limit_word::hard(held.load_relaxed());
  const bool is_tight = limit != 0 && limit <= kTightFrames;
  const bool is_young = has_strips(c) && (kSizeClasses[c].span_frames == 1 ? may_open || is_tight : !suits(c));
  return is_young ? kNewStrip : kOldStrips;
}
// Whether one superblock of the class is a small part of the heap, or, where there are no strips of it, of its limit.
bool OwnHeap::suits(unsigned c) const {
  const u64 frames = kSizeClasses[c].span_frames, seen = held.load_relaxed(), limit = limit_word::hard(seen);
  if (frames == 1) return true;
  return has_strips(c) ? frames * 4 <= limit_word::held(seen) : limit == 0 || frames * 4 <= limit;
}

void* OwnHeap::refill(HeapSlab& slab, unsigned c) {
  Slab& home = slab.slab();
  const Source source = source_of(c, home.current[c].load_relaxed() != 0, slab.strips.load_relaxed() < kMostStrips);
  if (source != kSuperblocks)
    if (void* block = gather(&slab, c, /*all=*/false)) return block;
  if (source == kNewStrip)
    if (void* block = open_strip(slab, c)) return block;
  if (source == kSuperblocks || suits(c))
    if (void* block = magazines_.refill(RseqSlabs(slab_of), home, c)) return block;
  if (!has_strips(c)) return nullptr;
  leave_strip(slab, StripsOf::kIfWorth, kInSections);  // marks in an open strip list it nowhere
  if (void* block = gather(&slab, c, /*all=*/true)) return block;
  if (void* block = take_of_strip(c, /*may_open=*/false))
    return block;  // which calls without a slab, and samples, come from
  return kSizeClasses[c].span_frames > 1 ? open_strip(slab, c) : nullptr;
}

// A block that was freed into a strip. With a slab others of there go into its magazines, up to their middle, so that
// the next ones find room as well. Null: none is found.
void* OwnHeap::gather(HeapSlab* slab, unsigned wanted, bool all) {
  uptr mine = 0;
  const auto take = [&](uptr block, unsigned c) {
    if (c == wanted && mine == 0) return mine = block, true;
    if (slab == nullptr) return false;
    const u64 top = slab->slab().top[c].load_relaxed();
    if (top != closed() && (top - bottom(*slab, c)) / sizeof(u64) >= HeapShapes::small(c) / 2) return false;
    void* one = reinterpret_cast<void*>(block);
    magazines_.load(RseqSlabs(slab_of), c, &one, 1);
    return true;
  };
  for (unsigned tries = 0; mine == 0 && tries < 2 && heaps_->strips().gather(*this, wanted, all, take) && !all;)
    ++tries;
  return reinterpret_cast<void*>(mine);
}

// The first block of a new strip, which this CPU then has in hand; null: no memory, or the limit.
void* OwnHeap::open_strip(HeapSlab& slab, unsigned c) {
  if (room() == 0) return nullptr;
  leave_strip(slab, StripsOf::kAlways, kInSections);
  Run<Machine>* one = heaps_->strips().make_strip(*this);
  if (one == nullptr) return nullptr;
  const uptr block = one->address.load_relaxed(), next = block + kSizeClasses[c].size;
  Heaps::StripsOf::kind_of(*one, block).store_relaxed(static_cast<u8>(c));
  slab.strips.store_relaxed(slab.strips.load_relaxed() + 1);
  Machine::step("own.opening");
  const u64 base = reinterpret_cast<u64>(one), seen = slab.strip_next.load_relaxed();
  const bool is_said = seen == next || store_if(slab_of, kStripNext, seen, 0, next);
  Machine::step("own.putting_in");
  if (!is_said || !store_if(slab_of, kStripBase, 0, next, base)) heaps_->strips().close(*this, *one, next);
  return reinterpret_cast<void*>(block);
}

// Takes the strip out and closes it, if it is time.
void OwnHeap::leave_strip(HeapSlab& slab, StripsOf::When when, Access access) {
  const u64 base = slab.strip_base.load_relaxed(), next = slab.strip_next.load_relaxed();
  if (base == 0) return;
  auto& one = *reinterpret_cast<Run<Machine>*>(base);
  if (!StripsOf::is_time(when, one, next)) return;
  if (access == kSeized) slab.strip_base.store_relaxed(0);
  else if (!store_if(slab_of, kStripBase, base, next, 0)) return;
  Machine::step("own.closing");
  heaps_->strips().close(*this, one, next);
}

// --- free ------------------------------------------------------------------------------------------------------------

bool OwnHeap::free(unsigned c, uptr address) {
  auto* block = reinterpret_cast<void*>(address);
  if (HeapSlab* slab = own_slab()) {
    // Where processors reorder stores the slot may be older than the top: then only the section says so.
    if (kStoresStayInOrder && slab_words::on_top(slab->slab(), c) == address) return false;
    if (magazines_.stash(RseqSlabs(slab_of), slab->slab(), c, block)) return true;
  }
  magazines_.flush(c, &block, 1);
  return true;
}

bool OwnHeap::alone() const { return alone::holds(freeway_rseq.alone.load_relaxed()); }
u64 OwnHeap::closed() const { return heaps_->surroundings().closed; }

// Blocks of strips are freed here.
Place OwnHeap::place_of(unsigned c, const SizeClass& k, void* block) {
  const auto address = reinterpret_cast<uptr>(block);
  Substrate& substrate = heaps_->frames().substrate();
  const FrameInfo info = substrate.map().get(address);
  Fault fault = Fault::kInterior;
  if (FREEWAY_UNLIKELY(!info.is_of_heap())) {
    fault = substrate.classify_outside(address);
  } else {
    const u32 of = spans_.descriptor(info.value()).size_class.load_relaxed();
    if (of == c) {
      if (const u32 index = k.block_at(address); index != SizeClass::kNoBlock) return {info.value(), index};
    } else if (of == 0) {
      auto& strip = heaps_->strips().at(info.value());
      const bool is_there = strip.is_whole.load_relaxed() == 0 && Heaps::StripsOf::kind_at(strip, address) != 0;
      if (is_there && heaps_->strips().mark(*this, strip, address, c)) return {0, 0};
      fault = Fault::kDoubleFree;
    }
  }
  report(fault, "free", block, nullptr, substrate.options().report_only);
  return {0, 0};
}

void OwnHeap::free_group(unsigned c, const SizeClass& k, const Group& group, void* block) {
  const uptr span = k.span_of(reinterpret_cast<uptr>(block));
  const u64 twice = superblocks_.free_group(c, group.descriptor(), span, group.word(), group.mask);
  if (FREEWAY_UNLIKELY(twice != 0))
    report_twice(span, k.size, group.word(), twice, heaps_->frames().substrate().options().report_only);
}
void OwnHeap::group_was_freed(unsigned c, const SizeClass& k, const Group& group, void* block, u64 old) {
  const uptr span = k.span_of(reinterpret_cast<uptr>(block));
  const u64 twice = superblocks_.was_freed(c, group.descriptor(), span, group.word(), group.mask, old);
  if (FREEWAY_UNLIKELY(twice != 0))
    report_twice(span, k.size, group.word(), twice, heaps_->frames().substrate().options().report_only);
}

// --- Slabs. ----------------------------------------------------------------------------------------------------------

// The slab of the CPU that this thread was on a moment ago, made if there is none. Null: no sections, no memory, or it
// is seized.
HeapSlab* OwnHeap::own_slab() {
  const u32 cpu = heaps_->cpu();
  if (cpu >= ids.load_relaxed()) return nullptr;
  HeapSlab* slab = in_place(slab_of[cpu]);
  if (FREEWAY_LIKELY(slab != nullptr && PlaceOf::is_settled(*slab))) return slab;
  return make_slab(cpu);
}

// One that exists and is in no place is seized, or was by a thread that a fork left behind, or is a spare one.
HeapSlab* OwnHeap::make_slab(u32 cpu) {
  bool is_made = false;
  each_slab([&](HeapSlab& slab) {
    if (slab.id.load_relaxed() != cpu) return;
    is_made = true;
    PlaceOf::settle(slab_of[cpu], slab, process::claimant(), freeway_hot.null_slab);
  });
  if (is_made) return in_place(slab_of[cpu]);
  FrameSource& frames = heaps_->frames();
  u32 index = heaps_->spare_slabs(cpu).pop(frames.links<HeapSlab>());
  const bool is_new = index == 0;
  if (is_new && (index = frames.make(sizeof(HeapSlab) / Metadata<Machine>::kUnit)) == 0) return nullptr;
  auto& slab = *static_cast<HeapSlab*>(frames.at(index));
  if (is_new) {
    slab.self.store_relaxed(index);
    slab.id.store_relaxed(cpu);
    for (auto& top : slab.slab().top) top.store_relaxed(closed());
    for (unsigned c = 1; c < kClassCount; ++c) slab.slab().capacity[c].store_relaxed(HeapShapes::small(c));
  }
  slab.claim.take(process::claimant());
  Machine::step("own.slab");
  // First: whoever destroys the heap then finds each slab that anybody may have used, wherever this thread ends.
  slabs.push(index, frames.nexts<HeapSlab>());
  Machine::step("own.slab_listed");
  PlaceOf::put(slab_of[cpu], slab);
  return in_place(slab_of[cpu]);  // if another was faster, this one is spare
}

void OwnHeap::end() {
  FrameSource& frames = heaps_->frames();
  slabs.take_all(frames.nexts<HeapSlab>(), [&](u32 index) {
    auto& slab = *static_cast<HeapSlab*>(frames.at(index));
    const u32 id = slab.id.load_relaxed();
    slab_of[id].store_relaxed(freeway_hot.null_slab);
    slab.claim.release();
    for (unsigned c = 1; c < kClassCount; ++c) {
      slab.slab().top[c].store_relaxed(closed());
      slab.slab().current[c].store_relaxed(0);
    }
    slab.strip_base.store_relaxed(0);
    slab.strips.store_relaxed(0);
    heaps_->spare_slabs(id).push(index, frames.links<HeapSlab>());
  });
  direct_strip_.clear();
  if (superblocks_made.looks_empty()) return;
  superblocks_made.take_all(frames.nexts<Descriptor<Machine>>(), [&](u32 index) {
    Descriptor<Machine>& desc = spans_.descriptor(index);
    const unsigned c = desc.size_class.load_relaxed();
    if (has_span(index, desc)) frames.give_frames(desc.span.load_relaxed(), kSizeClasses[c].span_frames);
    Machine::step("own.recycling");
    heaps_->spare_descriptors(c).push(index, frames.links<Descriptor<Machine>>());
  });
  superblocks_.lists().clear();
  direct_.clear();
}

const FrameSource& OwnHeap::frame_source() const { return heaps_->frames(); }

bool OwnHeap::has_span(u32 index, const Descriptor<Machine>& desc) const {
  const uptr span = desc.span.load_relaxed();
  return span != 0 && heaps_->frames().substrate().map().get(span).bits == FrameInfo::of_heap(index).bits;
}

}  // namespace freeway::heap

namespace freeway {
template class HeldSuperblock<Machine>;
template class Superblocks<Machine, heap::Spans, ShortLists<Machine>>;
template class Magazines<heap::OwnHeap, heap::HeapShapes>;
}  // namespace freeway
