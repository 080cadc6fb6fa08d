// SPDX-License-Identifier: MIT
// spare_path.cc: where malloc and free in assembly go when they cannot finish. Without rseq their limits are 0, so that
// they come here at once, and most calls end here: in the slab that the thread keeps between its calls
// (cache/spare_slabs.h). All others go on to entry.cc.
//
//   malloc(n)                                            free(p)
//   [1] class = byte_table[n]        (else step table)   [1] class = frame_bytes[(p - arena) >> 16]
//   [2] inside = the thread's name                       [7] no block of the class begins at p -> slow
//   [3] the seat is not its own -> slow                  [2] inside = the thread's name
//   [4] p = slab.top[class][-1]; 0 -> slow               [3] the seat is not its own -> slow
//   [5] slab.top[class] -= 8         (commit)            [4] *slab.top[class] == 0 -> slow; p is on top -> slow
//   [6] inside = 0                                       [5] *slab.top[class] = p; slab.top[class] += 8   (commit)
//                                                        [8] slab.home[class] != home[frame of p] -> foreign
//                                                        [6] inside = 0
//
// Class 0 (large, foreign, NULL) has no magazine: empty and full in every slab; no block of it begins anywhere. With
// FREEWAY_HARDEN no slab is ever kept. Compiled without frame pointers, and leaves that register alone: counted, and
// looked at, by tests/whole/golden.
#include "malloc/spare_path.h"

#include "malloc/malloc.h"

namespace {

using freeway::Slab;
using Spare = freeway::SpareSlabs<freeway::Machine>;
using freeway::allocate_otherwise;
using freeway::free_otherwise;

}  // namespace

extern "C" {

FREEWAY_HIDDEN void* freeway_malloc_slow(std::size_t size) {
  if (Slab* slab = Spare::enter(freeway::own); FREEWAY_LIKELY(slab != nullptr)) {
    const freeway::u64 block = freeway::PlainSlab(*slab).pop(freeway::class_of_request(size));
    Spare::leave(freeway::own);
    if (FREEWAY_LIKELY(block != 0)) return reinterpret_cast<void*>(block);
  }
  return allocate_otherwise(size, __builtin_return_address(0));
}

// `frame`: the block's in the primary arena, if it is there; the assembly has it where a third argument is.
FREEWAY_HIDDEN void freeway_free_slow(void* block, freeway::u64, freeway::u64 frame) {
  const auto word = reinterpret_cast<freeway::u64>(block);
  const unsigned c = freeway::class_of_frame(frame);
  if (c == 0) return freeway_free_own(block, 0, frame);
  Slab* slab = FREEWAY_LIKELY(freeway::may_begin(word, c)) ? Spare::enter(freeway::own) : nullptr;
  if (FREEWAY_UNLIKELY(slab == nullptr)) return free_otherwise(block, __builtin_return_address(0));
  const bool done = freeway::PlainSlab(*slab).push_once(c, word);
  const bool at_home = slab->home[c].load_relaxed() == freeway::home_of(word).load_relaxed();
  const bool home = FREEWAY_LIKELY(at_home) || !freeway::homes::is_due(*slab);
  Spare::leave(freeway::own);
  if (FREEWAY_UNLIKELY(!done)) return free_otherwise(block, __builtin_return_address(0));
  if (FREEWAY_UNLIKELY(!home)) freeway::process_malloc.heap().send_home(c);
}

FREEWAY_HIDDEN void freeway_free_otherwise(void* block) { free_otherwise(block, __builtin_return_address(0)); }
FREEWAY_HIDDEN void freeway_free_full(void* block) {
  freeway::process_malloc.heap().put_back(freeway::class_of_block(block), block);
}
FREEWAY_HIDDEN void freeway_send_home(void* block) {
  freeway::process_malloc.heap().send_home(freeway::class_of_block(block));
}
}
