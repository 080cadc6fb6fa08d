// SPDX-License-Identifier: MIT
// owned.cc: malloc and free where there is no rseq: in the slab that the thread keeps between its calls
// (cache/owned_slabs.h). Without rseq the limits of the assembly are 0, so that it leads here at once.
//
//   malloc(n)                                            free(p)
//   [1] class = byte_table[n]        (else step table)   [1] class = frame_class[(p - arena) >> 16]
//   [2] inside = the thread's name                       [7] no block of the class begins at p -> slow
//   [3] the seat's owner is somebody else -> slow        [2] inside = the thread's name
//   [4] p = slab.top[class][-1]; 0 -> slow               [3] the seat's owner is somebody else -> slow
//   [5] slab.top[class] -= 8         (commit)            [4] *slab.top[class] == 0 -> slow; p is on top -> slow
//   [6] inside = 0                                       [5] *slab.top[class] = p; slab.top[class] += 8   (commit)
//                                                        [8] slab.home[class] != home[frame of p] -> foreign
//                                                        [6] inside = 0
//
// Class 0 (large, foreign, NULL) has no magazine: empty and full in every slab; no block of it begins anywhere. With
// FREEWAY_HARDEN no slab is ever owned. Compiled without frame pointers, and leaves that register alone: counted, and looked at,
// by tests/golden.
#include "malloc/owned.h"

#include "malloc/malloc.h"

namespace freeway {

constinit thread_local OwnedSlabs<Machine>::Own own;

namespace {

constexpr uptr kNameUnit = process::Claimant::kThreadUnit;  // a thread's name is its thread pointer, in these

// The address of another thread's `inside`, which is as far from its thread pointer as ours: thread-local storage is
// static (-ftls-model=initial-exec), and the low bits of all thread pointers are the same, since `own` is aligned.
uptr inside_of(u64 name) {
  static_assert(alignof(decltype(own)) >= kNameUnit);
  const auto mine = reinterpret_cast<uptr>(__builtin_thread_pointer());
  return process::Claimant::thread(name) * kNameUnit + (reinterpret_cast<uptr>(&own.inside) - align_down(mine, kNameUnit));
}

FREEWAY_INLINE unsigned class_of_frame(uptr frame) {
  return FREEWAY_LIKELY(frame < kPrimaryFrames) ? Heap::class_bytes()[frame].load_relaxed() : 0;
}
FREEWAY_INLINE unsigned class_of_block(const void* block) {
  return class_of_frame((reinterpret_cast<uptr>(block) - freeway_hot.arena.load_relaxed()) >> kFrameShift);
}

// Whether a block of the class may begin there, as the assembly finds out.
FREEWAY_INLINE bool may_begin(u64 block, unsigned c) {
  return (block & freeway_hot.span_mask[c]) * freeway_hot.factor[c] < freeway_hot.factor_limit[c];
}

}  // namespace

// The low 32 bits hold the epoch, which is never 0: a thread that is out does not look like one inside.
bool Revoker::is_inside(u64 name) { return process::may_read(inside_of(name), static_cast<u32>(name)); }

// The slab that this thread owns, entered; null if it has none, or is in it already.
Slab* Heap::settle() {
  if (Slab* slab = owned_.enter(own)) return slab;
  return owned_.settle(own, process::thread_hash(), process::claimant, [this] { return make_slab(); }, Revoker());
}

// The slab that this thread owned when it last looked, not entered; null if it has none.
const Slab* Heap::owned_slab() {
  const auto* seat = own.seat.get();
  return seat == nullptr ? nullptr : seat->slab.load_relaxed();
}

void Heap::drain_owned(const process::Claimant& who) {
  owned_.drain(own, who, Revoker(), [this](Slab& slab) { empty(slab); });
}

}  // namespace freeway

namespace {

using freeway::OwnedSlabs;
using freeway::Slab;
using Owned = OwnedSlabs<freeway::Machine>;
using freeway::allocate_otherwise;
using freeway::free_otherwise;

}  // namespace

// What malloc and free in assembly go to when they cannot finish.
extern "C" {

FREEWAY_HIDDEN void* freeway_malloc_slow(std::size_t size) {
  if (Slab* slab = Owned::enter(freeway::own); FREEWAY_LIKELY(slab != nullptr)) {
    const freeway::u64 block = freeway::slab_ops::pop(*slab, freeway::Heap::class_of_request(size));
    Owned::leave(freeway::own);
    if (FREEWAY_LIKELY(block != 0)) return reinterpret_cast<void*>(block);
  }
  return allocate_otherwise(size, __builtin_return_address(0));
}

// `frame`: the block's in the primary arena, if it is there; the assembly has it where a third argument is.
FREEWAY_HIDDEN void freeway_free_slow(void* block, freeway::u64, freeway::u64 frame) {
  const auto word = reinterpret_cast<freeway::u64>(block);
  const unsigned c = freeway::class_of_frame(frame);
  if (c == 0) return freeway::free_own(block, frame);
  Slab* slab = FREEWAY_LIKELY(freeway::may_begin(word, c)) ? Owned::enter(freeway::own) : nullptr;
  if (FREEWAY_UNLIKELY(slab == nullptr)) return free_otherwise(block, __builtin_return_address(0));
  const bool done = freeway::slab_ops::push_once(*slab, c, word) != 0;
  const bool at_home = slab->home[c].load_relaxed() == freeway::home_of(word).load_relaxed();
  const bool home = FREEWAY_LIKELY(at_home) || !freeway::homes::is_due(*slab);
  Owned::leave(freeway::own);
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
