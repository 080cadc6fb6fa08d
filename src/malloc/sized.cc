// SPDX-License-Identifier: MIT
// sized.cc: frees that are told the size, where the assembly has not found that it is right.
#include "harden/guarded.h"
#include "malloc/errors.h"
#include "malloc/family.h"
#include "malloc/heaps.h"
#include "malloc/large.h"

namespace freeway {

namespace {

// Bytes of the live block that begins at the address, if it cannot be what was told; else 0, also if none begins there.
std::size_t bytes_of_other(uptr address, const Told& told) {
  const FrameInfo info = process_malloc.map().get(address);
  std::size_t bytes = 0;
  bool may_be = false;
  if (info.kind() == FrameInfo::kSmall) {
    bytes = process_malloc.heap().usable(address, info.value());
    may_be = sizes::may_be_small(process_malloc.heap().descriptor(info.value()).size_class.load_relaxed(), told);
  } else if (info.kind() != FrameInfo::kNothing) {
    bytes = begins_large(address) ? large_bytes(info) : 0;
    const std::size_t needed = process_malloc.substrate().large().frames_for(sizes::bytes_asked(told), info);
    may_be = sizes::may_be_large(info.frames(), needed, info.kind() == FrameInfo::kHuge, told);
  } else if (info.is_of_heap()) {
    bytes = heaps::usable(address, info);
    may_be = bytes != 0 && heaps::may_be(address, info, bytes, told);
  } else if (guard::owns(address)) {
    bytes = guard::usable(address);
    may_be = sizes::may_be_guarded(bytes, told);
  }
  return told.can_be() && may_be ? 0 : bytes;
}

FREEWAY_NOINLINE void look_at_size(void* block, std::size_t bytes, std::size_t alignment, bool may_be_resized,
                                   const void* caller) {
  const Told told = {bytes, alignment, may_be_resized};
  if (const std::size_t found = bytes_of_other(reinterpret_cast<uptr>(block), told))
    report_size(block, bytes, found, caller, process_malloc.options().report_only);
}

}  // namespace

// Goes on to free by jumps: it names our caller.
void family::free_sized(void* block, std::size_t bytes, std::size_t alignment, bool may_be_resized,
                        const void* caller) {
  const Told told = {bytes, alignment, may_be_resized};
  // The fast path for alignments, and where sections are not used.
  const unsigned c = class_of_block(block);
  if (FREEWAY_LIKELY(c != 0 && told.can_be() && class_of_request(sizes::rounded(told)) == c))
    return freeway_free(block);
  if (block == nullptr || !process_malloc.start()) return;
  look_at_size(block, bytes, alignment, may_be_resized, caller);
  if (c != 0) return freeway_free(block);
  free(block, caller);
}

}  // namespace freeway

extern "C" FREEWAY_HIDDEN void freeway_free_sized_slow(void* block, std::size_t size) {
  freeway::family::free_sized(block, size, /*alignment=*/1, /*may_be_resized=*/true, __builtin_return_address(0));
}
