// SPDX-License-Identifier: MIT
// engine.cc: start, and the parts of the engine that are not on malloc's path.
#include "papers/lfmalloc/engine.h"

#include <errno.h>

#include "papers/lfmalloc/rseq_place.h"

extern "C" {
// vfork.S comes here when the system call failed.
FREEWAY_HIDDEN long freeway_vfork_failed(long error);
FREEWAY_HIDDEN bool freeway_before_vfork();
}

namespace freeway {

constinit Front<lfmalloc::Engine> process_heap;

namespace lfmalloc {

bool Engine::start(Substrate& substrate) {
  assert_layout<Product>();
  const Options& options = substrate.options();
  find_rseq(options.use_rseq && substrate.id_bound() <= RSEQ_IDS, options.force_rseq);
  Form told = make_form(engine_option(kName, "PROTECTION"), engine_option(kName, "REMOTE") != 0,
                        engine_option(kName, "GLOBAL") != 0);
  told.sections &= rseq_in_use;
  form = told;
  memory_.init(&substrate);
  const u32 hashed = static_cast<u32>(engine_option(kName, "HEAPS"));
  heaps_.init(&memory_, hashed != 0 ? hashed : 2 * substrate.cpus());
  global_.init(&memory_, static_cast<u32>(engine_option(kName, "EMPTIES")));
  allocator_.init(&heaps_, &global_);
  return true;
}

const char* Engine::mode() const {
  if (form.sections) return "per-CPU heaps in restartable sections";
  switch (form.lock) {
    case Lock::kMutex: return form.per_cpu ? "per-CPU heaps under mutexes" : "hashed heaps under mutexes";
    case Lock::kSpin: return form.per_cpu ? "per-CPU heaps under spin locks" : "hashed heaps under spin locks";
    default: return form.per_cpu ? "per-CPU heaps under CAS" : "hashed heaps under CAS";
  }
}

// A larger block, and in front of the aligned address within it the way back to its start.
void* Engine::allocate_aligned(std::size_t bytes, std::size_t alignment) {
  const std::size_t room = bytes + alignment - 16;  // both are small: the front checked bytes
  if (alignment > kMaxSmall || room > kMaxSmall) return nullptr;
  const auto block = reinterpret_cast<uptr>(allocate(room));
  if (block == 0) return nullptr;
  const uptr aligned = align_up(block, alignment);
  if (aligned != block) Memory::prefix(aligned).store_relaxed(block | prefix::kAligned);
  return reinterpret_cast<void*>(aligned);
}

Verdict Engine::free(uptr address, u32 value) {
  const Place place = locate(address, value);
  if (FREEWAY_UNLIKELY(place.block == 0)) return Verdict::kInterior;
  Atomic<u64>& prefix = Memory::prefix(place.block);
  const u64 live = reinterpret_cast<u64>(place.superblock);
  if (const u64 seen = prefix.load_relaxed(); FREEWAY_UNLIKELY(seen != live)) {
    const bool empty = remote::state(place.superblock->remote.load_relaxed()) == remote::kNone;
    return empty || seen == (live | prefix::kFree) ? Verdict::kDoubleFree : Verdict::kForeign;  // overwritten
  }
  if (FREEWAY_UNLIKELY(place.block != address)) Memory::prefix(address).store_relaxed(0);
  prefix.store_relaxed(live | prefix::kFree);
  allocator_.free(place.superblock, value, place.size_class, place.block);
  return Verdict::kOk;
}

std::size_t Engine::usable(uptr address, u32 value) {
  const Place place = locate(address, value);
  if (place.block == 0) return 0;
  if (Memory::prefix(place.block).load_relaxed() != reinterpret_cast<u64>(place.superblock)) return 0;
  return place.block + kClasses[place.size_class].data_bytes() - address;
}

}  // namespace lfmalloc
}  // namespace freeway

// For a thread that is not known to be registered for rseq: whether it is.
bool freeway_before_vfork() {
  return freeway::process_heap.start() && freeway_rseq.area != 0 && freeway::process::is_registered(freeway_rseq.area);
}

long freeway_vfork_failed(long error) {
  errno = static_cast<int>(-error);
  return -1;
}
