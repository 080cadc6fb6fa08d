// SPDX-License-Identifier: MIT
// heaps.cc: compiled for size: all that is not done for each block. What is: own_heap.cc.
#include "heap/heaps.h"

#include "cache/slab_age.h"

namespace freeway::heap {

namespace {

bool has_something(HeapSlab& slab) {
  bool found = slab.strip_base.load_relaxed() != 0;
  for (unsigned c = 1; !found && c < kClassCount; ++c)
    found = slab.slab().current[c].load_relaxed() != 0 || slab_words::on_top(slab.slab(), c) != 0;
  return found;
}

// Calls f(block) for each that CPUs have in magazines of class `c`.
template <class F> void each_in_magazines(const OwnHeap& heap, unsigned c, F&& f) {
  heap.each_slab([&](HeapSlab& slab) {
    u64 at = slab.slab().top[c].load_relaxed() - 8;
    while (const u64 block = slab_words::slot(at)->load_relaxed()) f(block), at -= 8;
  });
}

// Where the strip's next block begins, or would have, once it is closed. If it is open and nobody has it, its end:
// behind its blocks there are no kinds.
uptr next_of(const OwnHeap& heap, const Run<Machine>& one) {
  const u64 word = one.word.load_relaxed();
  const u64 length = strip::length_of(word) * strip::kGranule;
  uptr next = strip::is_open(word) ? one.end.load_relaxed() : one.address.load_relaxed() + length;
  heap.each_slab([&](HeapSlab& slab) {
    if (slab.strip_base.load_relaxed() == reinterpret_cast<u64>(&one)) next = slab.strip_next.load_relaxed();
  });
  return next;
}

u64 age_mark(const OwnHeap& heap) {
  u64 mark = heap.held.load_relaxed();
  heap.each_slab([&](HeapSlab& slab) { mark += slab_age::mark_of(slab.slab()) ^ slab.strip_next.load_relaxed(); });
  return mark;
}

}  // namespace

bool Heaps::is_idle(OwnHeap& heap, u64 now) {
  return slab_age::is_idle(heap.age_seen, heap.age_since, age_mark(heap), now);
}

void Heaps::init(Substrate* substrate) {
  frames_.init(substrate);
  strips_.init(&frames_);
}

void Heaps::start(const Surroundings& surroundings) {
  surroundings_ = surroundings;
  if (surroundings_.ids > kMostIds) surroundings_.ids = kMostIds;
}

u32 Heaps::cpu() const {
  if (is_direct() || !surroundings_.has_sections()) return kNoCpu;
  return rseq_index();
}

u32 FrameSource::make(u32 units) { return records_.take(units); }

u64 Heaps::create(u64 limit, const char* name) {
  return registry_.create(*this, [=](OwnHeap& heap) mutable {
    heap.held.store_relaxed(limit_word::limited(0, limit > limit_word::kMostHard ? 0 : limit));
    heap.denials.store_relaxed(0);
    heap.refusals.store_relaxed(0);
    heap.is_sampled.store_relaxed(0);
    for (std::size_t i = 0; i < kNameBytes; ++i) {
      const char letter = name == nullptr || i + 1 == kNameBytes ? '\0' : *name;
      heap.name[i].store_relaxed(static_cast<u8>(letter));
      if (letter != '\0') ++name;
    }
  });
}

u32 Heaps::make_record() {
  const u32 ids = surroundings_.ids,
            index = frames_.make(static_cast<u32>(OwnHeap::bytes(ids) / Metadata<Machine>::kUnit));
  if (index != 0) at(index).init(this, index, ids);
  return index;
}

bool Heaps::destroy(u64 handle, Gone gone) {
  return registry_.destroy(*this, handle, process::claimant(), [&](OwnHeap& heap) { end(heap, gone); });
}
u32 Heaps::visit_each(u32 from, FunctionRef<bool(OwnHeap&)> visit, Gone gone) {
  return registry_.visit_each(*this, from, process::claimant, visit, [&](OwnHeap& heap) { end(heap, gone); });
}
void Heaps::end(OwnHeap& heap, Gone gone) {
  heap.end();
  strips_.give_all(heap, gone);
}

// Blocks of strips are aligned to 16 bytes only. Where there is no room for a superblock blocks are taken off the strip
// until its next one is where it should be.
void* Heaps::allocate_aligned(OwnHeap& heap, unsigned c, std::size_t alignment) {
  if (alignment <= kMinBlock || !has_strips(c)) return allocate(heap, c);
  if (void* block = heap.allocate_of_superblock(c)) return block;
  void* others[kMostOthers];
  unsigned count = 0;
  void* found = nullptr;
  while (found == nullptr && count < kMostOthers) {
    void* block = allocate(heap, c);
    if (block == nullptr) break;
    if (reinterpret_cast<uptr>(block) % alignment == 0) found = block;
    else others[count++] = block;
    if (found != nullptr || count == kMostOthers) break;
    if ((block = allocate(heap, 1)) == nullptr) break;
    others[count++] = block;
  }
  while (count > 0) {
    bool was_whole;
    const auto address = reinterpret_cast<uptr>(others[--count]);
    free(frames_.substrate().map().get(address).value(), address, was_whole);
  }
  return found;
}

void* Heaps::allocate_whole(OwnHeap& heap, std::size_t frames, std::size_t alignment, bool& zero) {
  const auto* run = strips_.make_whole(heap, frames, alignment, zero);
  return run == nullptr ? nullptr : reinterpret_cast<void*>(run->address.load_relaxed());
}

Freed Heaps::free(u32 index, uptr address, bool& was_whole) {
  was_whole = false;
  const Small small = small_at(index, address);
  if (FREEWAY_LIKELY(small.size_class != 0))
    return small.heap->free(small.size_class, address) ? Freed::kOk : Freed::kTwice;
  auto* const one = run_at(index);
  if (one == nullptr) return Freed::kInterior;
  auto& run = *one;
  if (run.is_whole.load_relaxed() == 0) return StripsOf::kind_at(run, address) == 0 ? Freed::kInterior : Freed::kTwice;
  if (address != run.address.load_relaxed()) return Freed::kInterior;
  was_whole = strips_.free_whole(*small.heap, run);
  return was_whole ? Freed::kOk : Freed::kTwice;
}

Heaps::Block Heaps::block_around(u32 index, uptr address) const {
  const auto& d = *static_cast<const Descriptor<Machine>*>(frames_.at(index));
  if (const unsigned c = d.size_class.load_relaxed()) {
    OwnHeap* heap = heap_of(d.heap.load_relaxed());
    const SizeClass& k = kSizeClasses[c];
    const uptr span = k.span_of(address);
    const u32 number = k.index_of(address - span);
    if (number >= k.blocks) return {heap, 0, 0, false, false, 0};
    const bool is_free = (d.words[number / 64].load_relaxed() >> (number % 64) & 1) != 0;
    return {heap, span + u64{number} * k.size, k.size, false, is_free, c};
  }
  const auto& run = strips_.at(index);
  OwnHeap* heap = heap_of(run.heap.load_relaxed());
  if (run.is_whole.load_relaxed() != 0)
    return {heap, run.address.load_relaxed(), run.frames.load_relaxed() * kFrameSize, true, false, 0};
  const uptr begin = StripsOf::begin_of(run, address);
  if (begin == 0) return {heap, 0, 0, false, false, 0};
  const u8 kind = StripsOf::kind_at(run, begin);
  return {heap, begin, StripsOf::size_of(kind), false, kind > strip::kMarked, strip::class_of(kind)};
}

bool Heaps::seems_in_hand(const Block& block) {
  bool found = false;
  each_in_magazines(*block.heap, block.size_class, [&](u64 other) { found |= other == block.address; });
  return found;
}

Figures Heaps::figures(const OwnHeap& heap) const {
  Figures sum = {};
  strips_.each_run(heap, [&](const Run<Machine>& run) {
    if (run.is_whole.load_relaxed() != 0) {
      ++sum.whole_blocks;
      ++sum.live_blocks;
      sum.live_bytes += run.frames.load_relaxed() * kFrameSize;
      return;
    }
    const uptr next = next_of(heap, run);
    for (uptr block = run.address.load_relaxed(); block < next;) {
      const u8 kind = StripsOf::kind_at(run, block);
      const u64 bytes = StripsOf::size_of(kind);
      if (bytes == 0) return;  // others go on meanwhile
      if (kind < strip::kMarked) ++sum.live_blocks, sum.live_bytes += bytes;
      block += bytes;
    }
  });
  heap.each_superblock([&](const Descriptor<Machine>& d) {
    const SizeClass& k = kSizeClasses[d.size_class.load_relaxed()];
    const u32 taken = k.blocks - bitmap::free_blocks(d, k);
    sum.live_blocks += taken;
    sum.live_bytes += u64{taken} * k.size;
  });
  for (unsigned c = 1; c < kClassCount; ++c) {
    u64 blocks = 0;
    each_in_magazines(heap, c, [&](u64) { blocks += blocks < sum.live_blocks; });
    sum.live_blocks -= blocks;
    sum.live_bytes -= clamp(blocks * kSizeClasses[c].size, 0, sum.live_bytes);
  }
  const u64 held = heap.held.load_relaxed();
  sum.held_bytes = limit_word::held(held) * kFrameSize;
  sum.limit = limit_word::hard(held) * kFrameSize;
  sum.refusals = heap.refusals.load_relaxed();
  sum.free_bytes = sum.held_bytes - clamp(sum.live_bytes, 0, sum.held_bytes);
  return sum;
}

// --- OwnHeap: without a slab. ----------------------------------------------------------------------------------------

void* OwnHeap::allocate_direct(unsigned c) {
  if (void* block = take_of_strip(c, /*may_open=*/false)) return block;
  void* block = nullptr;
  const Source source = source_of(c, !direct_.looks_empty(c), direct_strip_.opened() < kMostDirect);
  if (source != kSuperblocks && (marked.load_relaxed() >> c & 1) != 0) {
    direct_strip_.leave(heaps_->strips(), *this, StripsOf::kIfWorth);  // marks in an open strip list it nowhere
    if (const uptr found = heaps_->strips().find(*this, c)) return reinterpret_cast<void*>(found);
  }
  if (source == kNewStrip)
    if ((block = take_of_strip(c, /*may_open=*/true)) != nullptr) return block;
  if (source == kSuperblocks || suits(c))
    if ((block = allocate_of_superblock(c)) != nullptr) return block;
  if (!has_strips(c)) return nullptr;
  direct_strip_.leave(heaps_->strips(), *this, StripsOf::kIfWorth);  // marks in an open strip list it nowhere
  if ((block = gather(nullptr, c, /*all=*/true)) != nullptr) return block;
  return take_of_strip(c, /*may_open=*/kSizeClasses[c].span_frames > 1);
}

void* OwnHeap::take_of_strip(unsigned c, bool may_open) {
  return has_strips(c) ? reinterpret_cast<void*>(direct_strip_.allocate(heaps_->strips(), *this, c, may_open))
                       : nullptr;
}

void* OwnHeap::allocate_of_superblock(unsigned c) {
  return direct_.allocate(superblocks_, c, [this](u32 d, void** block) {
    if (!heaps_->is_direct()) return superblocks_.take(d, 1, block) == 1;
    random::Stream random = heaps_->surroundings().random();
    return superblocks_.take_scattered(d, 1, block, random) == 1;
  });
}

// --- OwnHeap: taking apart. ------------------------------------------------------------------------------------------

// What CPUs have in hand goes back, but for strips of which blocks are live. If sections cannot be interrupted, what
// this CPU has.
void OwnHeap::empty_all() {
  u32 seized = 0;
  each_slab([&](HeapSlab& slab) {
    if (!has_something(slab)) return;
    if (!PlaceOf::seize(slab_of[slab.id.load_relaxed()], slab, process::claimant(), freeway_hot.null_slab)) return;
    slab.link.store_relaxed(seized);
    seized = slab.self.load_relaxed();
  });
  if (seized == 0) return;
  const bool is_mine = process::interrupt_sections();
  const auto each = [&](auto&& f) {
    for (u32 index = seized, next; index != 0; index = next) {
      auto& slab = *static_cast<HeapSlab*>(heaps_->frames().at(index));
      next = slab.link.load_relaxed();
      f(slab);
    }
  };
  // A strip is unused once its blocks have come out of all magazines.
  if (is_mine) each([&](HeapSlab& slab) { magazines_.empty(slab.slab()); });
  if (is_mine) each([&](HeapSlab& slab) { leave_strip(slab, StripsOf::kIfUnused, kSeized); });
  each([&](HeapSlab& slab) { PlaceOf::put(slab_of[slab.id.load_relaxed()], slab); });
  if (is_mine) return;
  if (HeapSlab* slab = own_slab()) empty_own(*slab);
}

void OwnHeap::empty_own(HeapSlab& slab) {
  const RseqSlabs access(slab_of);
  for (unsigned c = 1; c < kClassCount; ++c) {
    void* blocks[kBatchMax];
    for (u32 tries = 0; tries < HeapShapes::small(c) / kBatchMax + 2; ++tries) {
      const unsigned n = access.pop_batch(c, blocks, kBatchMax);
      if (n == 0) break;
      Machine::step("own.emptied");
      magazines_.flush(c, blocks, n);
    }
    if (const u32 d = access.take_current(c)) superblocks_.let_go(d);
  }
  leave_strip(slab, StripsOf::kIfUnused, kInSections);
}

void OwnHeap::collect() {
  for (unsigned c = 1; c < kClassCount; ++c) direct_.empty(superblocks_, c);
  empty_all();
  direct_strip_.leave(heaps_->strips(), *this, StripsOf::kIfUnused);
  heaps_->strips().sweep(*this);
  age_seen.store_relaxed(age_mark(*this));
  age_since.store_relaxed(slab_age::kEmptied);
}

void OwnHeap::purge() {
  PurgePolicy<Machine>& policy = heaps_->frames().substrate().frames().policy();
  if (policy.kept() != 0 || superblocks_made.looks_empty()) return;
  superblocks_.flip_lists();
  for (unsigned c = 1; c < kClassCount; ++c)
    superblocks_.each_listed(c, limit_word::held(held.load_relaxed()), [&](u32 d) {
      const std::size_t bytes = superblocks_.purge(d, vm::page_size());
      if (bytes != 0) policy.on_purge_bytes(bytes);
    });
}

}  // namespace freeway::heap
