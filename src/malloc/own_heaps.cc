// SPDX-License-Identifier: MIT
// own_heaps.cc: where the heaps of one's own (heap/README.md) have their frames and their CPUs from.
#include "malloc/malloc.h"
#include "malloc/owned.h"

namespace freeway {

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
