// SPDX-License-Identifier: MIT
// owned.cc: malloc and free where there is no rseq: in the slab that the thread keeps between its calls
// (cache/owned_slabs.h). Without rseq the limits of the assembly are 0, so that it leads here at once.
//
//   malloc(n)                                            free(p)
//   [1] class = byte_table[n]        (else step table)   [1] class = frame_class[(p - arena) >> 16]
//   [2] inside = the thread's name                       [2] inside = the thread's name
//   [3] the seat's owner is somebody else -> slow        [3] the seat's owner is somebody else -> slow
//   [4] p = slab.top[class][-1]; 0 -> slow               [4] *slab.top[class] == 0 -> slow
//   [5] slab.top[class] -= 8         (commit)            [5] *slab.top[class] = p; slab.top[class] += 8   (commit)
//   [6] inside = 0                                       [6] inside = 0
//
// Class 0 (large, foreign, NULL) has no magazine: empty and full in every slab. Counted by tests/golden.
#include "engine/freeway/owned.h"

#include "engine/freeway/heap.h"

namespace freeway {

constinit thread_local OwnedSlabs<Machine>::Own own;

namespace {

constexpr uptr kNameUnit = 64;  // a thread's name is its thread pointer, in these

// The address of another thread's `inside`, which is as far from its thread pointer as ours: thread-local storage is
// static (-ftls-model=initial-exec), and the low bits of all thread pointers are the same, since `own` is aligned.
uptr inside_of(u64 name) {
  static_assert(alignof(decltype(own)) >= kNameUnit);
  const auto mine = reinterpret_cast<uptr>(__builtin_thread_pointer());
  return process::Claimant::thread(name) * kNameUnit + (reinterpret_cast<uptr>(&own.inside) - align_down(mine, kNameUnit));
}

FREEWAY_INLINE unsigned class_of_request(std::size_t bytes) {
  if (FREEWAY_LIKELY(bytes <= kByteTableMax)) return freeway_hot.byte_table[bytes];
  return bytes <= kMaxSmall ? freeway_hot.step_table[(bytes + low_bits(kStepTableShift)) >> kStepTableShift] : 0;
}

FREEWAY_INLINE unsigned class_of_block(const void* block) {
  const uptr frame = (reinterpret_cast<uptr>(block) - freeway_hot.arena.load_relaxed()) >> kFrameShift;
  return FREEWAY_LIKELY(frame < kPrimaryFrames) ? Heap::class_bytes()[frame].load_relaxed() : 0;
}

}  // namespace

// The halves of the low 32 bits hold the epoch, which is never 0: a thread that is out does not look like one inside.
bool Revoker::is_inside(u64 name) { return process::may_read(inside_of(name), static_cast<u32>(name)); }

// The slab that this thread owns, entered; null if it has none, or is in it already.
Slab* Heap::settle() {
  if (Slab* slab = owned_.enter(own)) return slab;
  const u64 hash = (reinterpret_cast<u64>(__builtin_thread_pointer()) >> 12) * 0x9e3779b97f4a7c15u >> 32;
  return owned_.settle(own, hash, process::claimant, [this] { return make_slab(); }, Revoker());
}

void Heap::drain_owned(const process::Claimant& who) {
  owned_.drain(own, who, Revoker(), [this](Slab& slab) { magazines_.empty(slab); });
}

}  // namespace freeway

namespace {

using freeway::OwnedSlabs;
using freeway::Slab;
using Owned = OwnedSlabs<freeway::Machine>;

// Apart, so that the way in the own slab needs no stack.
FREEWAY_NOINLINE void* allocate_otherwise(std::size_t size) { return freeway::process_heap.allocate(size); }
FREEWAY_NOINLINE void free_otherwise(void* block, const void* caller) {
  if (block != nullptr && freeway::process_heap.start()) freeway::process_heap.free(block, caller);
}

}  // namespace

// What malloc and free in assembly go to when they cannot finish.
extern "C" {

FREEWAY_HIDDEN void* freeway_malloc_slow(std::size_t size) {
  if (Slab* slab = Owned::enter(freeway::own); FREEWAY_LIKELY(slab != nullptr)) {
    const freeway::u64 block = freeway::slab_ops::pop(*slab, freeway::class_of_request(size));
    Owned::leave(freeway::own);
    if (FREEWAY_LIKELY(block != 0)) return reinterpret_cast<void*>(block);
  }
  return allocate_otherwise(size);
}

FREEWAY_HIDDEN void freeway_free_slow(void* block) {
  if (Slab* slab = Owned::enter(freeway::own); FREEWAY_LIKELY(slab != nullptr)) {
    const auto word = reinterpret_cast<freeway::u64>(block);
    const bool done = freeway::slab_ops::push(*slab, freeway::class_of_block(block), word) != 0;
    Owned::leave(freeway::own);
    if (FREEWAY_LIKELY(done)) return;
  }
  free_otherwise(block, __builtin_return_address(0));
}
}
