// SPDX-License-Identifier: MIT
// small.cc: small blocks off the fast path.
#include "engine/freeway/heap.h"
#include "os/process.h"

namespace freeway {

// --- Backing -----------------------------------------------------------------------------------------------------------

u32 Backing::make_descriptor(unsigned c) {
  const std::size_t bytes = Descriptor<Machine>::bytes(kSizeClasses[c].words);
  const u32 index = heap_->metadata_.take(static_cast<u32>(bytes / Metadata<Machine>::kUnit));
  if (index != 0) descriptor(index).size_class.store_relaxed(c);
  return index;
}

uptr Backing::take_span(unsigned c, u32 descriptor) {
  const SizeClass& k = kSizeClasses[c];
  const Run run = heap_->frames_.take(k.span_frames, k.span_frames);
  if (!run) return 0;
  if (heap_->map_.set(run.address, k.span_frames, FrameInfo::small(descriptor), c)) return run.address;
  heap_->frames_.give(run.address, k.span_frames, process::coarse_time_ns());
  return 0;
}

void Backing::give_span(uptr span, unsigned c) {
  heap_->map_.clear(span, kSizeClasses[c].span_frames);
  heap_->frames_.give(span, kSizeClasses[c].span_frames, process::coarse_time_ns());
}

// --- Slabs -------------------------------------------------------------------------------------------------------------

// Takes the right to install or remove slab `id`; false if another thread has it.
bool Heap::seize(u32 id) {
  const process::Claimant who = process::claimant();
  u64 seen = exclusive_[id].load_relaxed();
  return who.may_replace(seen) && exclusive_[id].cas_acquire(seen, who.self);  // [A1] pairs with heap.h:[R1]
}

Slab* Heap::make_slab() {
  const uptr memory = vm::map(align_up(sizeof(Slab), kFrameSize), kFrameSize);
  if (memory == 0) return nullptr;
  auto* slab = reinterpret_cast<Slab*>(memory);
  for (auto& top : slab->top) top.store_relaxed(closed());
  for (unsigned c = 0; c < kClassCount; ++c) slab->capacity[c].store_relaxed(kMagazines[c].small);
  return slab;
}

// The slab of the CPU that this thread was on a moment ago, made if there is none. Null: not in this mode, the thread is
// not registered, no memory, or the slab is being drained.
Slab* Heap::own_slab() {
  if (mode_.load_relaxed() != kRseq) return nullptr;
  const auto* thread = static_cast<const volatile char*>(__builtin_thread_pointer());
  const auto registered = *reinterpret_cast<const volatile int*>(thread + freeway_hot.any_rseq + RSEQ_CPU_ID);
  const u32 id = *reinterpret_cast<const volatile u32*>(thread + freeway_hot.any_id);
  if (registered < 0 || id >= ids_) return nullptr;
  Slab* slab = freeway_hot.slab_of[id].load_acquire();  // [A2] pairs with [R2]
  if (reinterpret_cast<u64>(slab) != freeway_hot.null_slab) return slab;
  if (!seize(id)) return nullptr;
  // A slab that exists but is not installed was being drained by a thread that a fork left behind.
  slab = slabs_[id].load_relaxed();
  if (slab == nullptr && (slab = make_slab()) != nullptr) slabs_[id].store_release(slab);  // [R2] pairs with [A2] heap.h:[A2]
  if (slab != nullptr) freeway_hot.slab_of[id].store_release(slab);                        // [R2] pairs with [A2]
  unseize(id);
  return slab;
}

// Calls f(access, slab) with a slab that is this thread's until f returns; false if none could be had.
template <class F>
bool Heap::with_claimed_slab(F&& f) {
  const u64 hash = (reinterpret_cast<u64>(__builtin_thread_pointer()) >> 12) * 0x9e3779b97f4a7c15u >> 32;
  const unsigned n = claimed_.claim(hash, process::claimant());
  if (n == claimed_.kSlabs) return false;
  Slab* slab = claimed_.slab(n);
  if (slab == nullptr && (slab = make_slab()) != nullptr) claimed_.set_slab(n, slab);
  if (slab != nullptr) f(ClaimedSlab(*slab), *slab);
  claimed_.release(n);
  return slab != nullptr;
}

// --- malloc ------------------------------------------------------------------------------------------------------------

namespace {
constexpr u64 kTickMask = 63;  // every 64th slow malloc of a class looks at the clock
}

void* Heap::small_slow(unsigned c) {
  if (options_.harden) return small_random(c);
  void* block = nullptr;
  if (Slab* slab = own_slab()) {
    if ((++slab->counters[c].slow_mallocs & kTickMask) == 0) frames_.tick(process::coarse_time_ns());
    block = magazines_.refill(RseqSlabs(), *slab, c);
  } else {
    with_claimed_slab([&](const ClaimedSlab& access, Slab& home) {
      if ((++home.counters[c].slow_mallocs & kTickMask) == 0) frames_.tick(process::coarse_time_ns());
      block = magazines_.refill(access, home, c);
    });
  }
  if (block == nullptr) block = small_direct(c);
  if (block != nullptr) return block;
  scavenge();
  return small_direct(c);
}

// One block without a slab.
void* Heap::small_direct(unsigned c) {
  void* block = nullptr;
  while (const u32 d = superblocks_.hold(c)) {
    const unsigned got = superblocks_.take(d, 1, &block);
    superblocks_.let_go(d);
    if (got == 1) return block;
  }
  return nullptr;
}

// One block at a random place (FREEWAY_HARDEN).
void* Heap::small_random(unsigned c) {
  for (int tries = 0; tries < 2; ++tries) {
    while (const u32 d = superblocks_.hold(c)) {
      // A Weyl sequence, mixed: neighbouring calls land far apart.
      u64 x = random_.fetch_add_relaxed(0x9e3779b97f4a7c15u) ^ reinterpret_cast<u64>(&x);
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
      x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
      void* block = superblocks_.take_random(d, x ^ (x >> 31));
      superblocks_.let_go(d);
      if (block != nullptr) return block;
    }
    scavenge();
  }
  return nullptr;
}

// --- free --------------------------------------------------------------------------------------------------------------

// place_of for what is not in the primary arena, or no block at all.
Place Heap::place_elsewhere(unsigned c, void* block, u32 index) {
  const FrameInfo info = map_.get(reinterpret_cast<uptr>(block));
  if (index != SizeClass::kNoBlock && info.kind() == FrameInfo::kSmall &&
      backing_.descriptor(info.value()).size_class.load_relaxed() == c)
    return {info.value(), index};
  report(classify(block), "free", block, nullptr);
  return {0, 0};
}

void Heap::report_twice(const SizeClass& k, uptr span, unsigned word, u64 twice) {
  for (; twice != 0; twice &= twice - 1)
    report(Fault::kDoubleFree, "free", reinterpret_cast<void*>(span + (word * u64{64} + lowest_bit(twice)) * k.size),
           nullptr);
}

void Heap::free_small_slow(void* block, FrameInfo info, const void* caller) {
  const unsigned c = backing_.descriptor(info.value()).size_class.load_relaxed();
  const SizeClass& k = kSizeClasses[c];
  const uptr span = k.span_of(reinterpret_cast<uptr>(block));
  const u32 index = k.block_at(reinterpret_cast<uptr>(block));
  if (index == SizeClass::kNoBlock) return report(classify(block), "free", block, caller);
  if (options_.harden) {
    if (superblocks_.free_group(c, info.value(), span, index / 64, u64{1} << (index % 64)) != 0)
      report(Fault::kDoubleFree, "free", block, caller);
    return;
  }
  bool done = false;
  if (Slab* slab = own_slab()) {
    ++slab->counters[c].slow_frees;
    done = magazines_.stash(RseqSlabs(), *slab, c, block);
  } else {
    with_claimed_slab([&](const ClaimedSlab& access, Slab& home) {
      ++home.counters[c].slow_frees;
      done = magazines_.stash(access, home, c, block);
    });
  }
  if (!done) magazines_.flush(c, &block, 1);
}

}  // namespace freeway
