// SPDX-License-Identifier: MIT
// start.cc: initialisation, on the process's first allocation.
//
// Without a lock: everybody who comes before it is done (a signal handler during the first malloc; in theory a second
// thread) does all of it himself. Words that must have one value are published by CAS; everything else is stored with the
// same values by everybody. The fast path opens when its limits are stored, last.
//
// Two steps, since the first allocations of a process may come before the C library has set `environ`: memory first;
// options, and with them the choice between restartable sections and claimed slabs, as soon as they can be read. Until
// then every call takes the slow path and the claimed slabs.
#include <errno.h>
#include <string.h>

#include "guard/guarded.h"
#include "look/summary.h"
#include "malloc/family.h"
#include "malloc/malloc.h"
#include "malloc/malloc_form.h"
#include "profile/dumps.h"
#include "os/report.h"
#include "os/rseq_area.h"

extern "C" {
constinit FREEWAY_HIDDEN freeway::Hot freeway_hot = {};
extern FREEWAY_HIDDEN const freeway::SectionDescriptor freeway_section_malloc;
extern FREEWAY_HIDDEN const freeway::SectionDescriptor freeway_section_free;
}

namespace freeway {

namespace {

// Entries of slab_of that are made even where the kernel has fewer CPU numbers: a process that was checkpointed may go on
// on a machine with more CPUs. (Beyond that it may not: an entry that was not made leads nowhere.)
constexpr u32 kLeastIds = 256;

// Sections find struct rseq at `by_mm_cid` or `by_cpu`, offsets from the thread pointer; 0: at the decoy.
void enter_by(u64 by_mm_cid, u64 by_cpu, u64 bytes) {
  const u64 nowhere = static_cast<u64>(process::rseq_decoy_offset());
  const char* nothing = nullptr;  // who comes late must not undo what the helper says
  freeway_hot.alone.cas_relaxed(nothing, process::single_threaded_flag());
  freeway_hot.rseq_bytes = bytes;
  freeway_hot.rseq = by_mm_cid != 0 ? by_mm_cid : nowhere;
  freeway_hot.cpu_rseq = by_cpu != 0 ? by_cpu : nowhere;
  freeway_hot.any_id = by_mm_cid != 0 ? by_mm_cid + RSEQ_MM_CID : (by_cpu != 0 ? by_cpu : nowhere) + RSEQ_CPU_ID;
  freeway_hot.any_rseq = by_mm_cid != 0 ? by_mm_cid : by_cpu != 0 ? by_cpu : nowhere;
}

// The struct rseq for the sections of this process, or why there is none.
process::Rseq find_rseq(const Options& options, u32 id_bound) {
  process::Rseq none;
  none.why_not = !options.use_rseq ? "FREEWAY_RSEQ=0" : "more CPUs than there is room for";
  if (!options.use_rseq || id_bound > RSEQ_IDS) return none;
  return process::choose_rseq({.own = !options.libc_rseq_only, .any_kernel = options.force_rseq});
}

}  // namespace

bool Malloc::start_slow() {
  if (!substrate_.start(Heap::class_bytes(), LargeBlocks<Machine>::kHugeFrames)) return false;
  // Tables of megabytes of which a small process touches a few pages.
  const uptr begin = align_up(reinterpret_cast<uptr>(this), kFrameSize);
  vm::prefer_small(begin, align_down(reinterpret_cast<uptr>(this + 1), kFrameSize) - begin);
  const bool known = options_available();
  if (known) substrate_.read_environment(/*speak=*/true);
  if (!heap_.start(substrate_)) return false;
  if (!known) return true;
  guard::start(options().guard);
  if (options().guard_large) guard_large();
  ready_.store_release(1);  // [R1] pairs with malloc.h:[A1]
  if (const u64 interval = profile::read_setting()) family::begin_profile(interval);
  heap_.prefault(options().prefault);
  if (options().stats) prepare_summary();
  return true;
}

// Before the first block that leaves here: all know how long theirs is by its own entry.
void Malloc::guard_large() {
  substrate_.large().guard_ends(vm::page_size());
  guard::know_ends(nullptr, [](void*, uptr address, guard::Near& near) {
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

bool Heap::start(Substrate& substrate) {
  substrate_ = &substrate;
  backing_.init(this, kOrdinary);
  sampled_backing_.init(this, kSampled);
  // For good: what is allowed may change, and superblocks are listed by what there was.
  const u64 nodes = nodes_.get([]() -> u64 { return process::nodes(); }, [](u64) {});
  superblocks_.init(&backing_, static_cast<unsigned>(nodes));
  sampled_.init(&sampled_backing_);
  magazines_.init(this);
  scattered_.init(this, &magazines_, &quarantine_);
  way_.init(this, &magazines_);
  claimed_.init(2 * substrate.cpus());
  own_frames_.init(this);
  own_frames_.start(substrate.frames().limits());
  freeway_hot.arena.store_relaxed(substrate.frames().primary().base());
  substrate.frames().on_pressure(this, [](void* heap) { static_cast<Heap*>(heap)->drain(); });
  place_births();
  fill_tables();
  if (options_available()) decide_mode();
  return true;
}

void Heap::fill_tables() {
  static constexpr auto kBytes = make_byte_table();
  static constexpr auto kSteps = make_step_table();
  memcpy(freeway_hot.byte_table, kBytes.data(), sizeof(kBytes));
  memcpy(freeway_hot.step_table, kSteps.data(), sizeof(kSteps));
  for (unsigned c = 1; c < kClassCount; ++c) {
    freeway_hot.span_mask[c] = kSizeClasses[c].span_bytes() - 1;
    freeway_hot.factor[c] = kSizeClasses[c].begin_factor();
    freeway_hot.factor_limit[c] = kSizeClasses[c].begin_limit();
  }
  freeway_hot.malloc_section = freeway_section_malloc;
  freeway_hot.free_section = freeway_section_free;
  auto* null_slab = reinterpret_cast<Slab*>(&null_slab_);
  for (unsigned c = 0; c < Slab::kClasses; ++c) {
    null_slab_[c].store_relaxed(closed());
    null_slab_[offsetof(Slab, rest) / 8 + c].store_relaxed(closed());
  }
  freeway_hot.null_slab = reinterpret_cast<u64>(null_slab);
  if (freeway_hot.any_rseq == 0) enter_by(0, 0, 0);
  ids_ = static_cast<u32>(clamp(substrate_->id_bound(), kLeastIds, RSEQ_IDS));
  cpu_slabs_.init(freeway_hot.slab_of, ids_, null_slab);
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
  births_.init(place, arena.base(), arena.bytes());
  substrate_->frames().on_purge(this, [](void* heap, uptr address, std::size_t purged) {
    static_cast<Heap*>(heap)->births_.purge(address, purged, vm::page_size());
  });
  for (unsigned c = 1; c < kClassCount; ++c) {
    const unsigned shift = birth::shift_of(kSizeClasses[c].size);
    freeway_hot.birth_scale[c] = birth::scale_of(shift);
    freeway_hot.birth_base[c] = births_.base(shift);
  }
  freeway_hot.birth_base[0] = reinterpret_cast<u64>(&zeros_[0]);  // the scale is 0: no block of class 0 is ever born
}

// Chooses between restartable sections and claimed slabs, and opens the fast path.
void Heap::decide_mode() {
  const Options& options = substrate_->options();
  const process::Rseq found = find_rseq(options, substrate_->id_bound());
  const Mode wanted = !found.registered ? kClaimed : found.is_own ? kOwnRseq : kRseq;
  // Before the mode: no far block is marked in a CPU's slab then that an unchecked path will pop (cache/slots.h).
  no_births_.store_relaxed(options.harden == 0);
  const u64 mode = mode_.get([wanted] { return wanted; }, [](u64) {});
  const process::Rseq rseq = mode == kOwnRseq ? process::own_rseq() : process::rseq();  // the same for all who start
  const bool on = mode != kClaimed;
  const u64 area = static_cast<u64>(rseq.offset);
  enter_by(on && rseq.has_mm_cid ? area : 0, on && !rseq.has_mm_cid ? area : 0, rseq.bytes);
  if (on) process::can_interrupt_sections();
  if (!on) {
    why_claimed_ = found.why_not;
    if (options.harden == 0 && process::can_make_barriers()) owned_.init(4 * substrate_->cpus());
  }

  own_heaps_.init(&own_frames_, ids_, options.harden != 0);
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
  freeway_hot.step_limit.store_relaxed(kMaxSmall + 1);
  freeway_hot.byte_limit.store_relaxed(kByteTableMax + 1);
}

void Heap::describe(Line& line) const {
  const bool on = uses_rseq();
  if (is_careful()) line.text("hardened: ");
  if (on) {
    line.text("per-CPU slabs in restartable sections, indexed by ").text(process::rseq().has_mm_cid ? "mm_cid" : "cpu_id");
    if (mode_.peek() == kOwnRseq) line.text(", registered by Freeway");
  } else {
    line.text("claimed slabs: ").text(why_claimed());
  }
}

const char* Heap::mode() const {
  if (is_careful()) return "hardened";
  return uses_rseq() ? "rseq" : "claimed";
}

}  // namespace freeway

extern "C" {
FREEWAY_HIDDEN long freeway_vfork_failed(long error);
FREEWAY_HIDDEN bool freeway_before_vfork();
}

// For a thread that is not known to be registered for rseq: whether it is now.
bool freeway_before_vfork() {
  freeway::background::know_process();
  return freeway::process_malloc.start() && freeway_hot.any_rseq != 0 && freeway::Heap::can_enter_sections();
}
long freeway_vfork_failed(long error) {
  errno = static_cast<int>(-error);
  return -1;
}
