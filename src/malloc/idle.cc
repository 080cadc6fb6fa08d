// SPDX-License-Identifier: MIT
// idle.cc: giving memory back while little happens: what the helper does (background/helper.h), what a thread does that is
// about to sleep (freeway_idle), and trimming piece by piece (freeway_trim_step).
//
// Word      freeway_hot.alone: libc's flag -> a 0 -> libc's flag, by the helper alone. libc does not know of the helper, so
//           its flag says that the process has one thread, whose sections change bitmap words without atomic instructions
//           (arch/alone.h). Before the helper touches such a word it has them look at a 0, and interrupts all sections:
//           those that begin later see the 0, since what the interruption does is a barrier, too
// Lost if killed: between the two: atomic instructions where none would be needed, until the next helper has done its work
#include "cache/slab_age.h"
#include "malloc/family.h"
#include "malloc/malloc.h"
#include "malloc/owned.h"

namespace freeway {

namespace {

constexpr std::size_t kWorthFrames = 4 * kMiB / kFrameSize;

constinit char not_alone = 0;

bool is_used(Slab& slab, u64) { return !slab_age::was_emptied(slab); }

}  // namespace

// --- The helper ------------------------------------------------------------------------------------------------------

void Heap::start_background() {
  background::Work work;
  work.heap = this;
  // The child of a vfork is not registered, and must not make a thread.
  work.is_worth_it = [](void* heap) {
    auto& self = *static_cast<Heap*>(heap);
    const PurgePolicy<Machine>& policy = self.substrate_->frames().policy();
    return policy.live() + policy.dirty() >= kWorthFrames && (!self.uses_rseq() || can_enter_sections());
  };
  work.care = [](void* heap, background::Care care) { static_cast<Heap*>(heap)->care(care); };
  work.trim = [](void* heap, std::size_t keep) {
    auto& self = *static_cast<Heap*>(heap);
    self.beside_program([&self] { self.trim(); });
    self.substrate_->purge_beyond(keep);
  };
  background::start(work, substrate_->options().stats);
  substrate_->frames().on_tick(background::tick);
}

// In the helper: calls f(), which may touch bitmap words.
template <class F>
void Heap::beside_program(F&& f) {
  if (!uses_rseq()) return f();  // nobody's sections
  freeway_hot.alone.store_relaxed(&not_alone);
  if (process::interrupt_sections()) f();
  // What f did to the words comes first: on x86-64, which alone has such sections, stores stay in order.
  fence_signal();
  freeway_hot.alone.store_relaxed(process::single_threaded_flag());
}

void Heap::care(background::Care care) {
  using background::Care;
  const u64 now = process::coarse_time_ns();
  const PurgePolicy<Machine>& policy = substrate_->frames().policy();
  const bool gives = !policy.is_never();
  const bool deep = gives && care == Care::kDeep && policy.kept() == 0;  // see purge_class
  if (gives && (has_resting(now) || deep))
    beside_program([&] {
      drain_resting(now);
      if (deep) purge_superblocks();
    });
  substrate_->frames().tick(now);
  if (gives && care != Care::kDue) substrate_->frames().purge_to(policy.kept());
}

// --- Slabs that rest --------------------------------------------------------------------------------------------------

// Empties a slab that the caller has to himself, but for freed blocks that are to rest (FREEWAY_HARDEN=1).
void Heap::rest(Slab& slab) {
  magazines_.empty(slab);
  slab_age::note_emptied(slab);
}

// Notes what has changed in all slabs; whether some have not for a while.
bool Heap::has_resting(u64 now) {
  bool found = false;
  each_slab([&](Slab& slab, auto) { found = slab_age::rests(slab, now) || found; });
  return found;
}

template <class F>
void Heap::drain_claimed_if(bool (*wanted)(Slab&, u64 now), u64 now, F&& f) {
  const process::Claimant who = process::claimant();
  for (unsigned n = 0; n < claimed_.kSlabs; ++n) {
    Slab* slab = claimed_.slab(n);
    if (slab == nullptr || !wanted(*slab, now) || !claimed_.take(n, who)) continue;
    f(*slab);
    claimed_.release(n);
  }
}

void Heap::drain_resting(u64 now) {
  const process::Claimant who = process::claimant();
  for (u32 id = 0; uses_rseq() && id < ids_; ++id) {
    Slab* slab = cpu_slabs_.made(id);
    if (slab == nullptr || !slab_age::rests(*slab, now)) continue;
    cpu_slabs_.drain(id, who, process::interrupt_sections, [this](Slab& mine) { rest(mine); });
  }
  const auto wanted = [now](Slab& slab) { return slab_age::rests(slab, now); };
  owned_.drain_if(own, who, Revoker(), wanted, [this](Slab& slab) { rest(slab); });
  drain_claimed_if(slab_age::rests, now, [this](Slab& slab) { rest(slab); });
}

void Heap::idle(u64 now) {
  const process::Claimant who = process::claimant();
  if (Slab* slab = own_slab()) {
    const u32 id = *reinterpret_cast<const volatile u32*>(reinterpret_cast<uptr>(__builtin_thread_pointer()) + freeway_hot.any_id);
    if (id < ids_ && cpu_slabs_.made(id) == slab && slab_age::rests(*slab, now))
      cpu_slabs_.drain(id, who, process::interrupt_sections, [this](Slab& mine) { rest(mine); });
  } else if (const Slab* mine = owned_slab()) {
    const auto wanted = [now, mine](Slab& other) { return &other == mine && slab_age::rests(other, now); };
    owned_.drain_if(own, who, Revoker(), wanted, [this](Slab& emptied) { rest(emptied); });
  } else {
    drain_claimed_if(slab_age::rests, now, [this](Slab& unused) { rest(unused); });
  }
}

// --- Trimming piece by piece ------------------------------------------------------------------------------------------

// First the slabs (those of CPUs one by one, then all others), then the classes. The number of the next part is a hint: who
// works beside others may do what they do, or leave a part to the next round.
unsigned Heap::trim_parts() const { return (uses_rseq() ? ids_ : 0) + kClassCount; }

bool Heap::trim_part(std::size_t& effort) {
  constexpr std::size_t kSlab = 4 * kFrameSize;  // bytes that are given back while a slab is emptied, about
  const u32 slabs = uses_rseq() ? ids_ : 0;
  const u32 part = next_part_.load_relaxed();
  const process::Claimant who = process::claimant();
  const auto take_apart = [this, &effort](Slab& slab) {
    empty(slab);
    slab_age::note_emptied(slab);
    effort -= clamp(kSlab, 0, effort);
  };
  bool done = true;
  if (part < slabs) {
    Slab* slab = cpu_slabs_.made(part);
    if (slab != nullptr && is_used(*slab, 0)) cpu_slabs_.drain(part, who, process::interrupt_sections, take_apart);
  } else if (part == slabs) {
    owned_.drain_if(own, who, Revoker(), [](Slab& slab) { return is_used(slab, 0); }, take_apart);
    drain_claimed_if(is_used, 0, take_apart);
    superblocks_.flip_lists();
    sampled_.flip_lists();
  } else {
    done = purge_class(part - slabs, effort);
  }
  if (done) next_part_.store_relaxed(part + 1 < trim_parts() ? part + 1 : 0);
  return done;
}

void family::idle() {
  if (!process_malloc.start() || !process_malloc.ready()) return;
  const u64 now = process::coarse_time_ns();
  Frames<Machine>& frames = process_malloc.substrate().frames();
  if (!frames.policy().is_never()) process_malloc.heap().idle(now);
  frames.tick(now);
}

}  // namespace freeway
