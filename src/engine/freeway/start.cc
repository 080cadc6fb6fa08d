// SPDX-License-Identifier: MIT
// start.cc: the heap's initialisation, on the process's first allocation.
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

#include "engine/freeway/heap.h"
#include "engine/freeway/summary.h"
#include "os/process.h"
#include "os/report.h"

extern "C" {
constinit FREEWAY_HIDDEN freeway::Hot freeway_hot = {};
extern FREEWAY_HIDDEN const freeway::SectionDescriptor freeway_section_malloc;
extern FREEWAY_HIDDEN const freeway::SectionDescriptor freeway_section_free;
}

namespace freeway {

constinit Heap process_heap;

namespace {

// What rseq_cs is written to where there is no struct rseq of ours: its cpu_id says "not registered".
struct alignas(32) Decoy {
  u32 cpu_id_start = 0;
  int cpu_id = -1;
  u64 section = 0;
  u32 flags = 0, node_id = 0, mm_cid = 0, pad = 0;
};
constinit thread_local Decoy decoy;

i64 decoy_offset() {
  return reinterpret_cast<const char*>(&decoy) - static_cast<const char*>(__builtin_thread_pointer());
}

// Sections find struct rseq at `by_mm_cid` or `by_cpu`, offsets from the thread pointer; 0: at the decoy.
void enter_by(u64 by_mm_cid, u64 by_cpu, u64 bytes) {
  const u64 nowhere = static_cast<u64>(decoy_offset());
  freeway_hot.alone = process::single_threaded_flag();
  freeway_hot.rseq_bytes = bytes;
  freeway_hot.rseq = by_mm_cid != 0 ? by_mm_cid : nowhere;
  freeway_hot.cpu_rseq = by_cpu != 0 ? by_cpu : nowhere;
  freeway_hot.any_id = by_mm_cid != 0 ? by_mm_cid + RSEQ_MM_CID : (by_cpu != 0 ? by_cpu : nowhere) + RSEQ_CPU_ID;
  freeway_hot.any_rseq = by_mm_cid != 0 ? by_mm_cid : by_cpu != 0 ? by_cpu : nowhere;
}

constexpr std::size_t kSegmentOfUnlimited = Metadata<Machine>::kSegmentBytes;
constexpr u64 kSizeMask = kFrameSize - 1;  // the low bits of the packed reservation

}  // namespace

bool Heap::start() {
  if (ready_.load_acquire() != 0) return true;  // [A3] pairs with [R3]
  if (!reserve_primary()) return false;
  fill_tables();
  if (options_available()) decide_mode();
  return true;
}

// Reserves the primary arena (less address space where so much is refused), and tells the layers about it.
bool Heap::reserve_primary() {
  u64 packed = primary_.load_acquire();  // [A4] pairs with [R4]
  const u64 limit = process::address_space_limit();
  for (std::size_t bytes = kPrimaryBytes; packed == 0 && bytes >= kChunkSize; bytes /= 2) {
    if (bytes > limit) continue;
    const uptr base = vm::reserve(bytes, kChunkSize);
    if (base == 0) continue;
    if (primary_.cas_release(packed, base | log2_floor(bytes)))  // [R4] pairs with [A4]
      packed = base | log2_floor(bytes);
    else
      vm::release(base, bytes);
  }
  if (packed == 0) return false;
  const uptr base = packed & ~kSizeMask;
  const std::size_t bytes = std::size_t{1} << (packed & kSizeMask);
  backing_.init(this);
  superblocks_.init(&backing_);
  magazines_.init(this);
  frames_.init(base, bytes, chunks_);
  map_.init(base, bytes / kFrameSize, reinterpret_cast<Atomic<u8>*>(freeway_hot.frame_class),
            reinterpret_cast<Atomic<u32>*>(frame_infos_));
  metadata_.init(std::size_t{1} << log2_floor(clamp(limit / 256, kMiB, kSegmentOfUnlimited)));
  large_.init(&frames_, &map_);
  claimed_.init(2 * process::usable_cpus());
  freeway_hot.arena.store_relaxed(base);
  return true;
}

void Heap::fill_tables() {
  static constexpr auto kBytes = make_byte_table();
  static constexpr auto kSteps = make_step_table();
  memcpy(freeway_hot.byte_table, kBytes.data(), sizeof(kBytes));
  memcpy(freeway_hot.step_table, kSteps.data(), sizeof(kSteps));
  freeway_hot.malloc_section = freeway_section_malloc;
  freeway_hot.free_section = freeway_section_free;
  for (auto& top : null_tops_) top.store_relaxed(closed());
  auto* null_slab = reinterpret_cast<Slab*>(&null_tops_);
  freeway_hot.null_slab = reinterpret_cast<u64>(null_slab);
  if (freeway_hot.any_rseq == 0) enter_by(0, 0, 0);
  ids_ = process::id_bound();
  for (u32 id = 0; id < ids_; ++id) {
    Slab* none = nullptr;
    freeway_hot.slab_of[id].cas_relaxed(none, null_slab);
  }
}

// Chooses between restartable sections and claimed slabs, and opens the fast path.
void Heap::decide_mode() {
  const Options options = read_options(mode_.load_relaxed() == kUndecided);
  const process::Rseq rseq = process::rseq();
  u32 mode = kUndecided;
  const u32 wanted = options.use_rseq && rseq.registered && ids_ <= HOT_IDS ? kRseq : kClaimed;
  if (mode_.cas_relaxed(mode, wanted)) mode = wanted;
  options_ = options;

  const bool on = mode == kRseq;
  const u64 area = static_cast<u64>(rseq.offset);
  enter_by(on && rseq.has_mm_cid ? area : 0, on && !rseq.has_mm_cid ? area : 0, rseq.bytes);
  if (on) process::can_interrupt_sections();

  ready_.store_release(1);  // [R3] pairs with [A3]
  if (options.stats) prepare_summary();
  if (options.verbose)
    Line().text("freeway: ").text(options.harden ? "hardened: no caches" : on ? "per-CPU slabs in restartable sections" : "claimed slabs")
        .text(options.harden || !on ? "" : rseq.has_mm_cid ? ", indexed by mm_cid" : ", indexed by cpu_id").write();
  if (options.harden) return;  // the limits stay 0: every call takes the slow path
  freeway_hot.frames.store_relaxed(frames_.primary().bytes() / kFrameSize);
  freeway_hot.step_limit.store_relaxed(kMaxSmall + 1);
  freeway_hot.byte_limit.store_relaxed(kByteTableMax + 1);
}

}  // namespace freeway

// In case the process has not allocated before its constructors run, or the environment could not be read until now.
__attribute__((constructor)) static void freeway_start() { freeway::process_heap.start(); }
__attribute__((destructor)) static void freeway_finish() { freeway::write_requested_summary(freeway::process_heap); }

extern "C" FREEWAY_HIDDEN long freeway_vfork_failed(long error);
long freeway_vfork_failed(long error) {
  errno = static_cast<int>(-error);
  return -1;
}
