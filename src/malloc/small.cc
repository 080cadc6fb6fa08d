// SPDX-License-Identifier: MIT
// small.cc: small blocks off the fast path.
#include <string.h>

#include "malloc/heap.h"
#include "malloc/profile.h"
#include "os/process.h"

namespace freeway {

// --- Backing ---------------------------------------------------------------------------------------------------------

u32 Backing::make_descriptor(unsigned c) {
  const std::size_t bytes = Descriptor<Machine>::bytes(kSizeClasses[c].words);
  const u32 index = heap_->substrate().metadata().take(static_cast<u32>(bytes / Metadata<Machine>::kUnit));
  Machine::step("heap.descriptor");
  if (index == 0) return 0;
  descriptor(index).kind.store_relaxed(kind_);
  descriptor(index).size_class.store_relaxed(c);
  return index;
}

uptr Backing::take_span(unsigned c, u32 descriptor) {
  const SizeClass& k = kSizeClasses[c];
  return heap_->substrate().take_span(k.span_frames, k.span_frames, descriptor, [&](uptr span) {
    using Kind = Births<Machine>::Kind;
    const bool sampled = kind_ == kSampled;
    if (!heap_->births.are_kept()) return sampled ? 0 : static_cast<int>(c);
    const Kind kind = heap_->births.provide(span, k.span_bytes(), k.size, /*far=*/sampled);
    return kind == Kind::kNear ? static_cast<int>(c) : kind == Kind::kFar ? 0 : -1;
  });
}

// The frames may be anybody's, and another's in a moment; a descriptor is one for ever.
u32 Backing::descriptor_at(uptr span, unsigned c) const {
  // OPTIMISTIC: neighbour
  const FrameInfo info = heap_->substrate().map().get_unowned(span);
  if (info.kind() != FrameInfo::kSmall) return 0;
  const Descriptor<Machine>& found = descriptor(info.value());
  return found.size_class.load_relaxed() == c && found.kind.load_relaxed() == kind_ ? info.value() : 0;
}

void Backing::give_span(uptr span, unsigned c) { heap_->substrate().give_span(span, kSizeClasses[c].span_frames); }

// The kernel that fills in mm_cid fills in node_id, too.
unsigned Backing::node() { return process::node(rseq_has_mm_cid() ? freeway_rseq.area : 0); }

// --- malloc ----------------------------------------------------------------------------------------------------------

namespace {

constexpr u64 kTickMask = 63;  // every 64th slow malloc of a class looks at the clock

FREEWAY_NOINLINE void move_to_node(Slab& slab, unsigned node) {
  if (slab.node.load_relaxed() == node) return;
  slab.node.store_relaxed(node);
  for (unsigned c = 1; c < kClassCount; ++c)
    if (!homes::shares_lines(c)) slab.home[c].store_relaxed(static_cast<u8>(node));
}

// The slab is used where the thread is.
void follow_node(const Superblocks<Machine, Backing>& superblocks, Slab& slab) {
  if (FREEWAY_UNLIKELY(superblocks.has_nodes())) move_to_node(slab, superblocks.here());
}

}  // namespace

void* Heap::allocate(std::size_t bytes) {
  const unsigned c = loans.serve(class_of_size(bytes));
  void* block = refill(c);
  Machine::step("heap.unborn");
  const auto address = reinterpret_cast<uptr>(block);
  if (block != nullptr && births.are_kept()) birth::begin(birth_of(address, c), address);
  return block;
}

void* Heap::refill(unsigned c) {
  void* block = nullptr;
  slabs.with([&](const SlabInHand& access, Slab& slab) {
    follow_node(superblocks_, slab);
    if ((++slab.counters[c].slow_mallocs & kTickMask) == 0) {
      substrate_->frames().tick(process::coarse_time_ns());
      tick_profile(*this);
    }
    block = is_careful() ? scattered_.refill(access, slab, c) : magazines_.refill(access, slab, c);
  });
  return block != nullptr ? block : direct(c);
}

// One block without a slab.
void* Heap::direct(unsigned c) {
  if (is_careful()) return scattered_.direct(c);
  return take_one(superblocks_, c, [&](u32 d, void** block) {
    const unsigned got = superblocks_.take(d, 1, block);
    Machine::step("heap.direct");
    return got;
  });
}

// --- free ------------------------------------------------------------------------------------------------------------

// place_of for a block that is not in the primary arena, or for no block at all.
Place Heap::place_elsewhere(unsigned c, void* block, u32 index) {
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = substrate_->map().get(address);
  if (info.kind() == FrameInfo::kSmall) {
    if (index != SizeClass::kNoBlock && backing_.descriptor(info.value()).size_class.load_relaxed() == c)
      return {info.value(), index};
    report(address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior, "free", block, nullptr,
           substrate_->options().report_only);
  } else {
    report(substrate_->classify_outside(address), "free", block, nullptr, substrate_->options().report_only);
  }
  return {0, 0};
}

namespace {

// Where processors reorder stores: waits until this thread sees those that others had under way (without the kernel's
// barrier: in all probability), and is true. False: there is nothing more to see.
bool sees_more() {
  if constexpr (kStoresStayInOrder) return false;
  if (!process::make_barrier())
    for (unsigned i = 0; i < 10000; ++i) fence_signal();
  return true;
}

}  // namespace

// Whether the block, which begins where one may, is known to be free: exactly where there are births; else it is if it
// lies on top of this CPU's, or thread's, magazine, or its superblock has it. Where processors reorder stores, the
// words that it sees may be older than the caller's right to the block: then it looks again.
bool Heap::is_free(uptr block, u32 descriptor, unsigned c) {
  // The tag may be on its way from the processor that allocated the block (births.h, Orders).
  if (births.are_kept()) return !birth::is_born(birth_of(block, c), block, sees_more);
  return seems_free(block, descriptor, c) && (!sees_more() || seems_free(block, descriptor, c));
}

bool Heap::seems_free(uptr block, u32 descriptor, unsigned c) {
  if (superblocks_.is_free(descriptor, kSizeClasses[c].block_at(block))) return true;
  // The caller's block is in no magazine, so it is no matter what other threads do to this one meanwhile.
  return slabs.on_top(c) == block;
}

namespace {
constexpr u64 kFill = 0xdfdfdfdfdfdfdfdfu;  // no address, and as a number of anything far too large
}

Verdict Heap::free(uptr address, u32 descriptor) {
  const unsigned c = backing_.descriptor(descriptor).size_class.load_relaxed();
  if (kSizeClasses[c].block_at(address) == SizeClass::kNoBlock) return Verdict::kInterior;
  if (is_free(address, descriptor, c)) return Verdict::kDoubleFree;
  if (births.are_kept()) birth::end(birth_of(address, c));
  Machine::step("heap.ended");
  if (substrate_->options().fill) memset(reinterpret_cast<void*>(address), kFill & 0xff, kSizeClasses[c].size);
  if (FREEWAY_UNLIKELY(backing_.descriptor(descriptor).kind.load_relaxed() == kSampled)) {
    free_sampled(*this, c, address, descriptor);
    return Verdict::kOk;
  }
  put_back(c, reinterpret_cast<void*>(address));
  return Verdict::kOk;
}

void Heap::put_back(unsigned c, void* block) {
  bool done = false, foreign = false;
  slabs.with([&](const SlabInHand& access, Slab& slab) {
    ++slab.counters[c].slow_frees;
    done = is_careful() ? quarantine_.lay_down(access, slab, c, block) : magazines_.stash(access, slab, c, block);
    // In sections the fast path counts them.
    foreign = access.is_spare() && !is_careful() && is_foreign(slab, c, block) && homes::is_due(slab);
  });
  if (!done) magazines_.flush(c, &block, 1);
  if (foreign) send_home(c);
}

// --- Filling ---------------------------------------------------------------------------------------------------------

void Heap::leaves_rest(unsigned c, void* const* slots, unsigned count) {
  if (FREEWAY_LIKELY(!substrate_->options().fill)) return;
  const std::size_t bytes = kSizeClasses[c].size;
  for (unsigned i = 0; i < count; ++i) {
    const auto* block = static_cast<const u64*>(slots::block_of(reinterpret_cast<u64>(slots[i])));
    std::size_t at = 0;
    while (at < bytes && block[at / 8] == kFill) at += 8;
    if (at < bytes) report_written(block, bytes, at, substrate_->options().report_only);
  }
}

// --- Home ------------------------------------------------------------------------------------------------------------

void Heap::settle_home(const Slab& slab, unsigned c, u32 d) {
  const uptr span = superblocks_.span_of(d);
  if (substrate_->map().class_byte(span) == 0) return;  // not the fast path's
  const bool by_slab = homes::shares_lines(c);
  const u8 number = by_slab ? slab.home[c].load_relaxed() : static_cast<u8>(superblocks_.node_of(d));
  for (unsigned i = 0; i < kSizeClasses[c].span_frames; ++i) home_of(span + i * kFrameSize).store_relaxed(number);
}

bool Heap::is_away(const Slab& slab, unsigned c, const void* block) const {
  const u32 d = substrate_->map().value_of_primary(reinterpret_cast<uptr>(block), c);
  return d != 0 && superblocks_.node_of(d) != slab.node.load_relaxed();
}

void Heap::send_home(unsigned c) {
  slabs.with([&](const SlabInHand& access, Slab& slab) {
    follow_node(superblocks_, slab);
    magazines_.send_home(access, slab, c);
  });
}

// --- Moving ----------------------------------------------------------------------------------------------------------

bool Heap::clear_way(unsigned c) {
  bool clear = false;
  slabs.with([&](const SlabInHand& access, Slab& slab) {
    follow_node(superblocks_, slab);
    clear = way_.clear(access, slab, c);
  });
  return clear;
}

// --- Sizes -----------------------------------------------------------------------------------------------------------

bool Heap::begins_block(uptr address, u32 descriptor) const {
  return kSizeClasses[backing_.descriptor(descriptor).size_class.load_relaxed()].block_at(address) !=
         SizeClass::kNoBlock;
}

std::size_t Heap::usable(uptr address, u32 descriptor) {
  const unsigned c = backing_.descriptor(descriptor).size_class.load_relaxed();
  const SizeClass& k = kSizeClasses[c];
  return k.block_at(address) != SizeClass::kNoBlock && !is_free(address, descriptor, c) ? k.size : 0;
}

template class Superblocks<Machine, Backing>;
template class Magazines<Heap>;
template class Quarantine<Heap>;
template class Scattered<Heap>;
template class Way<Heap>;

}  // namespace freeway
