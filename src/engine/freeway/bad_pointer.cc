// SPDX-License-Identifier: MIT
// bad_pointer.cc: naming what a program did wrong with a pointer.
#include "engine/freeway/heap.h"
#include "os/report.h"

namespace freeway {

// What `pointer`, which is no live block, is. Follows nothing: reads only our own maps.
Fault Heap::classify(const void* pointer) {
  const auto address = reinterpret_cast<uptr>(pointer);
  const FrameInfo info = map_.get(address);
  Arena<Machine>* arena = frames_.arena_of(address);
  if (info.kind() == FrameInfo::kSmall) {
    const SizeClass& k = kSizeClasses[backing_.descriptor(info.value()).size_class.load_relaxed()];
    if (k.block_at(address) != SizeClass::kNoBlock) return Fault::kDoubleFree;  // a block, but a free one
  }
  if (info.kind() == FrameInfo::kNothing) {
    if (arena == nullptr) return Fault::kForeign;
    const std::size_t offset = address - arena->base();
    const bool used = (arena->used_word(offset / kChunkSize) >> (offset % kChunkSize / kFrameSize) & 1) != 0;
    if (!used) return Fault::kDoubleFree;  // its frame is free again
  }
  return address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior;
}

void Heap::report(Fault fault, const char* function, const void* pointer, const void* caller) {
  Line line;
  line.text("freeway: ");
  if (fault == Fault::kDoubleFree && function[0] == 'f') {
    line.text("double free");
  } else {
    line.text(function).text(" of ").text(fault == Fault::kForeign      ? "a foreign pointer"
                                          : fault == Fault::kMisaligned ? "a misaligned pointer"
                                          : fault == Fault::kInterior   ? "an interior pointer"
                                                                        : "a freed pointer");
  }
  line.text(fault == Fault::kDoubleFree && function[0] == 'f' ? " of " : " ").hex(reinterpret_cast<u64>(pointer));
  if (caller != nullptr)
    line.text(" by ").hex(reinterpret_cast<u64>(caller));
  else
    line.text(" (freed earlier; found when its batch was returned. FREEWAY_HARDEN=1 finds it at once)");
  line.write();
  if (!options_.report_only) die();
}

}  // namespace freeway
