// SPDX-License-Identifier: MIT
// own_heaps.cc: where the heaps of one's own (heap/README.md) have their frames and their CPUs from.
#include "malloc/malloc.h"
#include "malloc/owned.h"

namespace freeway {

// The layout that the sections know. (The records begin with a base class, of which the language does not say where it lies; both
// compilers put it first.)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(offsetof(heap::Record<Machine>, ids) == OWN_IDS);
static_assert(offsetof(heap::Record<Machine>, cache_of) == OWN_CACHE_OF);
static_assert(offsetof(heap::Cache<Machine>, strip) + OWN_BASE == OWN_STRIP_BASE && OWN_STRIP_NEXT - OWN_STRIP_BASE == OWN_FREE);
static_assert(offsetof(heap::Cache<Machine>, entries) == OWN_ENTRIES && sizeof(heap::Entry<Machine>) == OWN_ENTRY_BYTES);
static_assert(offsetof(heap::Entry<Machine>, base) == OWN_BASE && offsetof(heap::Entry<Machine>, free) == OWN_FREE);
static_assert(offsetof(heap::Entry<Machine>, top) == OWN_TOP && offsetof(heap::Entry<Machine>, size) == OWN_SIZE);
static_assert(offsetof(heap::Entry<Machine>, size_class) == OWN_CLASS);
static_assert(offsetof(heap::Slice<Machine>, end) == OWN_SLICE_END && offsetof(heap::Slice<Machine>, kinds) == OWN_SLICE_KINDS);
static_assert(offsetof(heap::Slice<Machine>, address) == OWN_SLICE_ADDRESS);
static_assert(offsetof(heap::Slice<Machine>, size) == OWN_SLICE_SIZE);
#pragma GCC diagnostic pop
static_assert(sizeof(heap::Slice<Machine>) == 64 && sizeof(heap::Region<Machine>) == (2 + heap::kUnits + 64) * 64);

uptr OwnFrames::take_frames(std::size_t frames, std::size_t alignment, u32 index, bool& zero) {
  Substrate& substrate = heap_->substrate();
  const Run run = substrate.frames().take(frames, alignment);
  if (!run) return 0;
  Machine::step("own.taken");
  zero = run.dirty == 0;
  if (substrate.map().set(run.address, frames, FrameInfo::of_heap(index), 0)) return run.address;
  substrate.frames().give(run.address, frames, process::coarse_time_ns());
  return 0;
}

void OwnFrames::give_frames(uptr address, std::size_t frames) {
  heap_->substrate().map().clear(address, frames);
  Machine::step("own.cleared");
  heap_->substrate().frames().give(address, frames, process::coarse_time_ns());
}

void free_own(void* block, uptr frame) {
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = process_malloc.map().get_primary(frame);
  if (FREEWAY_LIKELY(info.is_of_heap())) {
    const auto found = process_malloc.heap().own_heaps().in_strip(info.value(), address);
    if (FREEWAY_LIKELY(found.size_class != 0))
      return freeway_rseq_free_own(block, OwnFrames::entry(found.size_class), found.heap);
  }
  free_otherwise(block, __builtin_return_address(0));
}

// The thread is not registered, or not known to be.
u32 OwnFrames::register_cpu() {
  if (!Heap::can_enter_sections()) return heap::kNoCpu;
  return *reinterpret_cast<const volatile u32*>(reinterpret_cast<uptr>(__builtin_thread_pointer()) + freeway_hot.any_id);
}

}  // namespace freeway
