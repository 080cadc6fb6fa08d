// SPDX-License-Identifier: MIT
// idle.cc: giving memory back while little happens: by the helper (background/helper.h), by a thread that is about to
// sleep (freeway_idle), and piece by piece (freeway_trim_step).
//
// Word      freeway_rseq.alone: libc's flag -> a 0 -> libc's flag, by the helper alone. libc does not know of the
//           helper, so its flag says that the process has one thread, whose sections change bitmap words without atomic
//           instructions (arch/alone.h). Before the helper touches such a word it has them look at a 0, and interrupts
//           all sections: those that begin later see the 0, since the interruption is a barrier, too
// Lost if killed: between the two: atomic instructions where none would be needed, until the next helper has done its
// work. Within its work at a rate: until then nothing goes back by itself
#include "background/helper.h"
#include "background/pace.h"
#include "cache/slab_age.h"
#include "malloc/drain.h"
#include "malloc/family.h"
#include "malloc/heaps.h"
#include "malloc/malloc.h"

namespace freeway {

namespace {

constexpr std::size_t kWorthFrames = 4 * kMiB / kFrameSize;

constinit char not_alone = 0;

constexpr auto is_used = [](Slab& slab) { return !slab_age::was_emptied(slab); };
auto is_idle_at(u64 now) {
  return [now](Slab& slab) { return slab_age::is_idle(slab, now); };
}
// Empties a slab but for freed blocks that are to rest (FREEWAY_HARDEN=1).
auto emptied_but_for_rest(Heap& heap) {
  return [&heap](Slab& slab) {
    heap.empty_magazines(slab);
    slab_age::note_emptied(slab);
  };
}

}  // namespace

// --- The helper ------------------------------------------------------------------------------------------------------

namespace {

// In the helper: calls f(), which may touch bitmap words.
template <class F> void beside_program(Heap& heap, F&& f) {
  if (!heap.slabs.uses_rseq()) return f();  // nobody's sections
  freeway_rseq.alone.store_relaxed(&not_alone);
  if (process::interrupt_sections()) f();
  // What f did to the words comes first: on x86-64, which alone has such sections, stores stay in order.
  fence_signal();
  freeway_rseq.alone.store_relaxed(process::single_threaded_flag());
}

// Looks at all slabs, which notes their changes; whether some are idle.
bool has_idle(Heap& heap, u64 now) {
  bool found = false;
  heap.slabs.each([&](Slab& slab, auto) { found = slab_age::is_idle(slab, now) || found; });
  return heaps::some_idle(now) || found;
}

// The helper's alone, one after the other.
constinit background::Pace pace;
constinit unsigned next_class = 0;  // where the deep care goes on; 0: at the beginning

// Goes through the free blocks of superblocks, until `effort` is spent; whether it came to the end.
bool care_deep(Heap& heap, std::size_t& effort) {
  if (next_class == 0) flip_lists(heap);
  for (unsigned c = next_class == 0 ? 1 : next_class; c < kClassCount; ++c) {
    next_class = c;
    if (!purge_class(heap, c, effort)) return false;
  }
  next_class = 0;
  return true;
}

// Whether all is done; else the rate has ended it.
bool care_for(Heap& heap, background::Care care) {
  using background::Care;
  const u64 now = process::coarse_time_ns();
  Frames<Machine>& frames = heap.substrate().frames();
  PurgePolicy<Machine>& policy = frames.policy();
  policy.never(PurgePolicy<Machine>::kHelper, false);  // as an earlier one may have left it
  const std::size_t allowance = pace.allowance(now);
  const u64 before = policy.purged_bytes();  // others' count, too: then it is less
  const auto left = [&] { return allowance - clamp(policy.purged_bytes() - before, 0, allowance); };
  const bool gives = !policy.is_never();
  const bool deep = gives && care == Care::kDeep && policy.kept() == 0;  // else there is nothing to purge: purge_class
  bool complete = true;
  policy.never(PurgePolicy<Machine>::kHelper, pace.is_set());  // what is set free now goes back below
  if (gives && (has_idle(heap, now) || deep))
    beside_program(heap, [&] {
      heap.slabs.drain(is_idle_at(now), emptied_but_for_rest(heap));
      heaps::collect_all(now);
      std::size_t effort = allowance;
      if (deep) complete = allowance != 0 && care_deep(heap, effort);
    });
  policy.never(PurgePolicy<Machine>::kHelper, false);
  frames.tick(now, left() / kFrameSize);
  if (gives && care != Care::kDue) {
    frames.purge_some(left() / kFrameSize, policy.kept());
    complete = complete && left() >= kFrameSize;
  }
  pace.spend(policy.purged_bytes() - before);
  return complete;
}

}  // namespace

void start_background() {
  pace = background::Pace(process_malloc.options().background_rate);
  background::Work work;
  // A process without a helper asks. The child of a vfork is not registered, and must not make a thread.
  work.is_worth_it = [] {
    Heap& heap = process_malloc.heap();
    PurgePolicy<Machine>& policy = heap.substrate().frames().policy();
    policy.never(PurgePolicy<Machine>::kHelper, false);  // this process has none; its parent's may have set it
    return policy.live() + policy.dirty() >= kWorthFrames && (!heap.slabs.uses_rseq() || Slabs::can_enter_sections());
  };
  work.care = [](background::Care care) { return care_for(process_malloc.heap(), care); };
  work.trim = [](std::size_t keep) {
    Heap& heap = process_malloc.heap();
    beside_program(heap, [&] { trim(heap); });
    heap.substrate().purge_beyond(keep);
  };
  background::start(work, process_malloc.options().stats);
  process_malloc.substrate().frames().on_tick(background::tick);
}

// --- Trimming piece by piece -----------------------------------------------------------------------------------------

// First the slabs (those of CPUs one by one, then all others), then the classes, then the program's heaps. The number
// of the next part, and the heap to go on with, are hints: threads that trim at the same time may do a part twice, or
// leave one to the next round.
unsigned trim_parts(const Heap& heap) { return heap.slabs.cpus() + kClassCount + 1; }

bool trim_part(Heap& heap, std::size_t& effort) {
  constexpr std::size_t kSlab = 4 * kFrameSize;  // bytes that are given back while a slab is emptied, about
  static constinit Atomic<u32> next_part, next_heap;
  const auto empty = [&](Slab& slab) {
    heap.empty(slab);
    slab_age::note_emptied(slab);
    effort -= clamp(kSlab, 0, effort);
  };
  const u32 slabs = heap.slabs.cpus(), part = next_part.load_relaxed();
  bool done = true;
  if (part < slabs) {
    heap.slabs.drain_cpu(part, is_used, empty);
  } else if (part == slabs) {
    heap.slabs.drain_spare(is_used, empty);
    flip_lists(heap);
  } else if (part < slabs + kClassCount) {
    done = purge_class(heap, part - slabs, effort);
  } else {
    const u32 next = heaps::trim_some(next_heap.load_relaxed(), effort);
    next_heap.store_relaxed(next);
    done = next == 0;
  }
  if (done) next_part.store_relaxed(part + 1 < trim_parts(heap) ? part + 1 : 0);
  return done;
}

void family::idle() {
  if (!process_malloc.open()) return;
  const u64 now = process::coarse_time_ns();
  Frames<Machine>& frames = process_malloc.substrate().frames();
  Heap& heap = process_malloc.heap();
  if (!frames.policy().is_never()) heap.slabs.drain_at_hand(is_idle_at(now), emptied_but_for_rest(heap));
  frames.tick(now);
}

}  // namespace freeway
