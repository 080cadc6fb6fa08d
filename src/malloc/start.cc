// SPDX-License-Identifier: MIT
// start.cc: initialisation, on the process's first allocation.
//
// Without a lock: each caller that comes before it is done (a signal handler during the first malloc; in theory a
// second thread) does all of it. Words that must have one value are published by CAS; all others are stored by each of
// them, with the same values. The fast path opens when its limits are stored, last.
//
// Two steps, since the first allocations of a process may come before the C library has set `environ`: memory first;
// options, and with them the choice between restartable sections and spare slabs, as soon as they can be read. Until
// then every call takes the slow path and spare slabs.
#include <errno.h>

#include "background/helper.h"
#include "harden/guarded.h"
#include "look/summary.h"
#include "malloc/drain.h"
#include "malloc/family.h"
#include "malloc/malloc.h"
#include "malloc/malloc_form.h"
#include "malloc/profile.h"
#include "os/report.h"
#include "profile/dumps.h"
#include "profile/profiler.h"

extern "C" {
extern FREEWAY_HIDDEN const freeway::SectionDescriptor freeway_section_malloc;
extern FREEWAY_HIDDEN const freeway::SectionDescriptor freeway_section_free;
// Where the program has operator new.
extern FREEWAY_HIDDEN const freeway::SectionDescriptor freeway_section_new __attribute__((weak));
FREEWAY_HIDDEN bool freeway_delete_is_ours();  // fast_path.S; new.cc
}

namespace freeway {

bool Malloc::start_slow() {
  if (!substrate_.start(frame_bytes(), LargeBlocks<Machine>::kHugeFrames)) return false;
  // Tables of megabytes of which a small process touches a few pages.
  const uptr begin = align_up(reinterpret_cast<uptr>(this), kFrameSize);
  vm::prefer_small(begin, align_down(reinterpret_cast<uptr>(this + 1), kFrameSize) - begin);
  const bool known = options_available();
  if (known) substrate_.read_environment(/*speak=*/true);
  heap_.start(substrate_);
  if (!known) return true;
  heap_.open();
  guard::start(options().guard);
  if (options().guard_large) guard_large();
  ready_.store_release(1);                      // [R1] pairs with malloc.h:[A1]
  if (profile::is_on()) follow_profile(heap_);  // a handler began one, and open() has stored the form of none since
  if (const u64 interval = profile::read_setting()) family::begin_profile(interval);
  prefault(heap_, options().prefault);
  if (options().stats) prepare_summary();
  return true;
}

// Before the first block that leaves here: all know how long theirs is by its own entry.
void Malloc::guard_large() {
  substrate_.large().guard_ends(vm::page_size());
  guard::know_ends([](uptr address, guard::Near& near) {
    freeway_explanation_t found;
    family::explain(address, found);
    const auto size = static_cast<ptrdiff_t>(found.size);
    if (found.kind != FREEWAY_LARGE_BLOCK || found.offset < size) return false;
    near.kind = guard::Near::kAfter;
    near.live = true;
    near.distance = static_cast<u64>(found.offset - size) + 1;
    near.birth.address = reinterpret_cast<u64>(found.begin);
    near.birth.size = found.size;
    return true;
  });
}

void Heap::start(Substrate& substrate) {
  substrate_ = &substrate;
  backing_.init(this, kOrdinary);
  // For good: superblocks are listed by these nodes, and the process may be allowed others later.
  const u64 nodes = nodes_.get([]() -> u64 { return process::nodes(); }, [](u64) {});
  superblocks_.init(&backing_, static_cast<unsigned>(nodes));
  magazines_.init(this);
  scattered_.init(this, &magazines_, &quarantine_);
  way_.init(this, &magazines_);
  slabs.init(substrate, births);
  own_heaps.init(&substrate);
  freeway_hot.arena.store_relaxed(substrate.frames().primary().base());
  substrate.frames().on_pressure(this, [](void* heap) { drain(*static_cast<Heap*>(heap)); });
  place_births();
  fill_tables();
}

Superblocks<Machine, Backing>& Heap::sampled_superblocks() {
  const auto begin = [this]() -> u64 {
    sampled_backing_.init(this, kSampled);
    sampled_.init(&sampled_backing_);
    return 1;
  };
  has_sampled_.get(begin, [](u64) {});
  return sampled_;
}

void Heap::fill_tables() {
  fill_class_table(freeway_hot.byte_table, 0);
  // Sizes that the byte table has are not in the other: while only one of malloc's limits has come (malloc_form.h) they
  // find class 0, which sends them to the slow path.
  fill_class_table(freeway_hot.step_table, kStepTableShift, (kByteTableMax >> kStepTableShift) + 1);
  for (unsigned c = 1; c < kClassCount; ++c) {
    freeway_hot.span_mask[c] = kSizeClasses[c].span_bytes() - 1;
    freeway_hot.factor[c] = kSizeClasses[c].begin_factor();
    freeway_hot.factor_limit[c] = kSizeClasses[c].begin_limit();
  }
  freeway_hot.malloc_section = freeway_section_malloc;
  freeway_hot.free_section = freeway_section_free;
  if (&freeway_section_new != nullptr) freeway_hot.new_section = freeway_section_new;
}

// Finds a place for the births of the primary arena, and tells the fast path.
void Heap::place_births() {
  constexpr u64 kReserved = 1;
  const Arena<Machine>& arena = substrate_->frames().primary();
  const std::size_t bytes = birth::place_bytes(arena.bytes());
  const auto choose = [bytes]() -> u64 {
    const Space space = vm::space(bytes, kFrameSize);
    return space ? space.base | (space.reserved ? kReserved : 0) : kFrameSize;  // a place that is none
  };
  const u64 packed = births_place_.get(choose, [bytes](u64 late) {
    if ((late & kReserved) != 0) vm::release(late & ~kReserved, bytes);
  });
  const Space place{packed == kFrameSize ? 0 : packed & ~kReserved, (packed & kReserved) != 0};
  births.init(place, arena.base(), arena.bytes());
  substrate_->frames().on_purge(this, [](void* heap, uptr address, std::size_t purged) {
    static_cast<Heap*>(heap)->births.purge(address, purged, vm::page_size());
  });
  for (unsigned c = 1; c < kClassCount; ++c) {
    const unsigned shift = birth::shift_of(kSizeClasses[c].size);
    freeway_hot.birth_scale[c] = birth::scale_of(shift);
    freeway_hot.birth_base[c] = births.base(shift);
  }
  freeway_hot.birth_base[0] = closed();  // the scale is 0: no block of class 0 is ever born
}

void Heap::open() {
  const Options& options = substrate_->options();
  slabs.decide();
  const bool on = slabs.uses_rseq();
  const auto has_sections = [] { return process_malloc.heap().slabs.uses_rseq() && Slabs::can_enter_sections(); };
  const auto random = [] { return process_malloc.heap().random(); };
  own_heaps.start({freeway_rseq_give_own, slabs.ids(), options.harden != 0, has_sections, closed(), random});
  if (options.background) start_background();
  quarantine_.init(this, &magazines_, options.quarantine);
  substrate_->large().empty_freed(options.fill);
  const std::size_t frames = substrate_->frames().primary().bytes() / kFrameSize;
  if (options.harden != 0 && on && !options.fill) {
    freeway_hot.checked = frames;
    freeway_hot.malloc_form.store_relaxed(MallocForm::kChecked);
  }
  if (options.harden != 0 || !on) return;  // the limits stay 0
  freeway_hot.frames.store_relaxed(frames);
  if (freeway_delete_is_ours()) freeway_hot.delete_frames.store_relaxed(frames);
  freeway_hot.step_limit.store_relaxed(kMaxSmall + 1);
  freeway_hot.byte_limit.store_relaxed(kByteTableMax + 1);
}

}  // namespace freeway

extern "C" {
FREEWAY_HIDDEN long freeway_vfork_failed(long error);
FREEWAY_HIDDEN bool freeway_before_vfork();
}

// For a thread that is not known to be registered for rseq: whether it is now.
bool freeway_before_vfork() {
  freeway::background::know_process();
  return freeway::process_malloc.start() && freeway_rseq.area != 0 && freeway::Slabs::can_enter_sections();
}
long freeway_vfork_failed(long error) {
  errno = static_cast<int>(-error);
  return -1;
}
