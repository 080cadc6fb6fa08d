// SPDX-License-Identifier: MIT
// Frames: all arenas together: they hand out runs of frames and take them back.
//
// The primary arena has a big place (64 GiB, less where addresses are short), whose frames the fast path of free finds
// by subtraction. When it is full, or refuses a long run, further arenas are made, each found through a slot of a
// table.
//
// Word      slot: 0 -> arena (CAS), for ever
// Orders    [R1] publishes the arena; [A1] sees it
// Progress  lock-free       Lost if killed: an unpublished arena's address space
// Checked   tests/pages/frames_model.cc, tests/pages/frames_test.cc
#pragma once

#include "pages/arena.h"
#include "pages/limits.h"
#include "pages/purge_policy.h"

#include <new>

namespace freeway {

constexpr std::size_t kPrimaryBytes = 64 * kGiB;
constexpr std::size_t kPrimaryFrames = kPrimaryBytes / kFrameSize;

// The table of further arenas. It lies where its owner has what small processes do not touch.
template <class Env> struct FurtherArenas {
  static constexpr std::size_t kMost = 256;
  typename Env::template Atomic<Arena<Env>*> slots[kMost];
};

template <class Env> class Frames {
 public:
  using ChunkOf = Chunk<Env>;
  static constexpr std::size_t kFurtherBytes = kGiB;

  // Once. `chunks` has one entry for each 4 MiB of the primary arena's `bytes`.
  void init(Space space, std::size_t bytes, ChunkOf* chunks, FurtherArenas<Env>& further) {
    further_ = &further;
    primary_.init(space, bytes, chunks);
    limits_.on_full(this, [](void* self, u64 frames) { static_cast<Frames*>(self)->make_room(frames); });
  }

  // f(context, address, bytes) is called for frames whose memory was just given back, while the caller still owns them.
  // Once, or again with the same, before anything else.
  using OnPurge = void (*)(void* context, uptr address, std::size_t bytes);
  void on_purge(void* context, OnPurge f) {
    purge_context_ = context;
    on_purge_ = f;
  }
  // f(context) makes the caches' memory free frames, taking none itself: called above the soft limit, now and then.
  using OnPressure = void (*)(void* context);
  void on_pressure(void* context, OnPressure f) {
    pressure_context_ = context;
    on_pressure_ = f;
  }

  // f() is called at each tick(). Once, or again with the same.
  using OnTick = void (*)();
  void on_tick(OnTick f) { on_tick_ = f; }

  Arena<Env>& primary() { return primary_; }
  Limits<Env>& limits() { return limits_; }
  HugePages<Env>& huge_pages() { return huge_pages_; }
  PurgePolicy<Env>& policy() { return policy_; }

  // A run of `frames` frames at a multiple of `alignment` frames; none if memory is refused.
  FREEWAY_NOINLINE Run take(std::size_t frames, std::size_t alignment) {
    if (const std::size_t dirty = policy_.dirty(); frames > dirty && !limits_.has_room(frames - dirty))
      return limits_.note_refusal(), Run{};  // and take no address space for it
    Run run = take_anywhere(frames, alignment);
    if (!run && policy_.dirty() != 0) {  // the kernel may be out of memory, or at a limit
      purge_to(0);
      run = take_anywhere(frames, alignment);
    }
    Env::step("frames.taken");
    if (run && run.dirty < frames && FREEWAY_UNLIKELY(limits_.is_due(frames - run.dirty))) {
      arena_of(run.address)->put_back(run.address, frames);
      if (on_pressure_ != nullptr) on_pressure_(pressure_context_);
      run = take_anywhere(frames, alignment);  // frames that the caches gave may serve instead
    }
    return admitted(run, frames, alignment);
  }

  // The frames from `end` on, if they are free and in the arena of `address` (another may begin where it ends).
  FREEWAY_NOINLINE Run take_behind(uptr address, uptr end, std::size_t frames) {
    relieve(frames);
    Arena<Env>* arena = arena_of(address);
    return admitted(arena == nullptr ? Run{} : arena->take_at(end, frames), frames, 1);
  }

  // Charges `frames` frames of a mapping beside the arenas, or of a table, before they are made; false: they are too
  // many.
  FREEWAY_NOINLINE bool charge_mapping(std::size_t frames) {
    if (const std::size_t dirty = policy_.dirty(); frames > dirty && !limits_.has_room(frames - dirty))
      return limits_.note_refusal(), false;
    relieve(frames);
    return charge(frames);
  }

  // Both limits in bytes, see Limits: set from now on; begin_limit is for the environment.
  void limit(std::size_t soft, std::size_t hard) {
    limits_.set(soft / kFrameSize, hard / kFrameSize);
    huge_pages_.set_limited(soft != 0 || hard != 0);
    const std::size_t held = limits_.held(), most = limits_.hard();
    if (most != 0 && held > most) purge_some(held - most);
  }
  void begin_limit(std::size_t soft, std::size_t hard) {
    limits_.begin(soft / kFrameSize, hard / kFrameSize);
    huge_pages_.set_limited(limits_.soft() != 0 || limits_.hard() != 0);
  }

  // Gives frames back; `now` is a monotonic time in ns, which the purge policy needs.
  FREEWAY_NOINLINE void give(uptr address, std::size_t frames, u64 now) {
    Arena<Env>* arena = arena_of(address);
    FREEWAY_CHECK(arena != nullptr);
    policy_.on_give(frames);  // before others can take them: the count of dirty frames is never below the truth
    Env::step("frames.giving");
    arena->give(address, frames);
    tick(now);
  }

  // The same for frames whose memory is gone already, and no longer charged, or charged to another: all read as zero.
  FREEWAY_NOINLINE void give_zero(uptr address, std::size_t frames, u64 now) {
    Arena<Env>* arena = arena_of(address);
    FREEWAY_CHECK(arena != nullptr);
    policy_.on_give_zero(frames);
    arena->give(address, frames, /*zero=*/true);
    tick(now);
  }

  // Purges the frames that the policy does not let stay; slow paths call it now and then.
  // At most about `most` frames are given back.
  FREEWAY_NOINLINE void tick(u64 now, std::size_t most = ~std::size_t{0}) {
    const bool none_may_stay = limits_.is_above_soft(0);
    if (policy_.doubts(now, none_may_stay ? 1 : purge_policy::kDoubtTicks)) look_for_lost();
    const std::size_t dirty = policy_.dirty(), target = policy_.target(now, none_may_stay);
    if (target < dirty) purge_to(target, clamp(dirty - target, 0, most));
    if (on_tick_ != nullptr) on_tick_();
  }

  // Gives back the memory of free dirty frames until `target` frames or fewer keep theirs, or about `most` are purged:
  // those that others free meanwhile are theirs.
  void purge_to(std::size_t target, std::size_t most = ~std::size_t{0}) {
    std::size_t done = 0;
    auto dirty = [&] { return done < most ? policy_.dirty() : 0; };
    auto purged = [&](uptr address, std::size_t frames, unsigned were_dirty) {
      done += were_dirty;
      policy_.on_purge(were_dirty);
      limits_.uncharge(were_dirty);
      if (on_purge_ != nullptr) on_purge_(purge_context_, address, frames * kFrameSize);
    };
    PurgeEnd end = PurgeEnd::kReached;
    each_arena([&](Arena<Env>& arena) {
      end = arena.purge(dirty, target, purged);
      return end == PurgeEnd::kExhausted;
    });
    if (end == PurgeEnd::kExhausted) policy_.on_exhausted();
    if (end == PurgeEnd::kRefused) policy_.on_refused();
  }

  // Gives back the memory of so many free dirty frames, or of all but `least`.
  void purge_some(std::size_t frames, std::size_t least = 0) {
    const std::size_t dirty = policy_.dirty();
    if (dirty > least) purge_to(dirty - least > frames ? dirty - frames : least);
  }

  Arena<Env>* arena_of(uptr address) {
    if (primary_.contains(address)) return &primary_;
    Arena<Env>* found = nullptr;
    each_further([&](Arena<Env>& arena) {
      if (arena.contains(address)) found = &arena;
      return found == nullptr;
    });
    return found;
  }

  // The arena of that number, from 0 (the primary one) on; null: there are fewer.
  Arena<Env>* arena_at(std::size_t number) {
    if (number == 0) return &primary_;
    if (number > FurtherArenas<Env>::kMost) return nullptr;
    return further_->slots[number - 1].load_acquire();  // [A1] pairs with [R1]
  }

  // Calls f(arena) for each arena until it returns false.
  template <class F> void each_arena(F&& f) {
    if (f(primary_)) each_further(f);
  }

 private:
  template <class F> void each_further(F&& f) {
    if (further_ == nullptr) return;  // before init(): a first call may ask for a foreign pointer
    for (auto& slot : further_->slots) {
      Arena<Env>* arena = slot.load_acquire();  // [A1] pairs with [R1]
      if (arena == nullptr || !f(*arena)) return;
    }
  }

  // The run, once the kernel's memory for it is charged; none, and the run is as it was, if that is too much.
  Run admitted(Run run, std::size_t frames, std::size_t alignment) {
    const std::size_t clean = frames - run.dirty;
    if (!run || (clean != 0 && !charge(clean))) {
      if (run) arena_of(run.address)->put_back(run.address, frames);
      return {};
    }
    Env::step("frames.charged");
    policy_.on_take(frames, run.dirty);
    Arena<Env>& arena = *arena_of(run.address);
    const std::size_t offset = run.address - arena.base();
    huge_pages_.on_take(arena.new_memory(), arena.base(), arena.committed(), offset, frames * kFrameSize, [&] {
      return run.dirty == 0 && alignment <= frames && arena.holes_of(offset / kChunkSize) == 0;
    });
    return run;
  }

  // Above the soft limit the caller, about to charge more, may have to empty caches.
  void relieve(std::size_t frames) {
    if (limits_.is_due(frames) && on_pressure_ != nullptr) on_pressure_(pressure_context_);
  }

  bool charge(std::size_t frames) {
    if (limits_.is_above_soft(frames)) purge_some(frames);
    if (limits_.charge(frames)) return true;
    make_room(frames);
    if (limits_.charge(frames)) return true;
    limits_.note_refusal();
    return false;
  }

  // Makes room below the hard limit. If other threads use it up first, purges all the rest.
  void make_room(std::size_t frames) {
    purge_some(frames);
    if (!limits_.has_room(frames)) purge_to(0);
  }

  // Counts the frames that are free and dirty, without stopping any thread.
  void look_for_lost() {
    const std::size_t counted = policy_.dirty();
    std::size_t found = 0;
    each_arena([&](Arena<Env>& arena) { return found += arena.free_and_dirty(), true; });
    policy_.on_found(found, counted);
  }

  Run take_anywhere(std::size_t frames, std::size_t alignment) {
    Run run;
    bool refused = false;
    each_arena([&](Arena<Env>& arena) {
      run = arena.take(frames, alignment);
      refused |= run.refused;
      return !run;
    });
    // If memory is refused, another arena would not get it either, and each try would add one more.
    for (std::size_t tries = 0; !run && !refused && tries < 4; ++tries) {
      Arena<Env>* arena = add_arena(frames, alignment);
      if (arena == nullptr) return {};
      run = arena->take(frames, alignment);
      if (run.refused) return {};
    }
    return run;
  }

  // A further arena that is big enough for the run, published in the first empty slot; null if there is no memory.
  Arena<Env>* add_arena(std::size_t frames, std::size_t alignment) {
    const std::size_t needed = align_up((frames + (alignment > 1 ? alignment : 0)) * kFrameSize, kChunkSize);
    for (std::size_t bytes = needed > kFurtherBytes ? needed : kFurtherBytes; bytes >= needed;
         bytes = bytes / 2 >= needed ? align_up(bytes / 2, kChunkSize) : (bytes == needed ? 0 : needed)) {
      const Space space = Env::space(bytes, kChunkSize);
      if (!space) continue;
      Arena<Env>* arena = make_arena(space, bytes);
      if (arena != nullptr && publish(arena)) return arena;
      if (arena != nullptr) Env::release(reinterpret_cast<uptr>(arena), header_bytes(bytes));
      if (space.reserved) Env::release(space.base, bytes);
      return nullptr;
    }
    return nullptr;
  }

  static std::size_t header_bytes(std::size_t bytes) {
    return align_up(align_up(sizeof(Arena<Env>), 64) + bytes / kChunkSize * sizeof(ChunkOf), kFrameSize);
  }

  Arena<Env>* make_arena(Space space, std::size_t bytes) {
    const uptr memory = Env::map(header_bytes(bytes), kFrameSize);
    if (memory == 0) return nullptr;
    auto* arena = new (reinterpret_cast<void*>(memory)) Arena<Env>();
    arena->init(space, bytes, reinterpret_cast<ChunkOf*>(memory + align_up(sizeof(Arena<Env>), 64)));
    return arena;
  }

  bool publish(Arena<Env>* arena) {
    for (auto& slot : further_->slots) {
      Arena<Env>* none = nullptr;
      Env::step("frames.publish");
      if (slot.load_relaxed() == nullptr && slot.cas_release(none, arena)) return true;  // [R1] pairs with [A1]
    }
    return false;
  }

  Arena<Env> primary_;
  PurgePolicy<Env> policy_;
  Limits<Env> limits_;
  HugePages<Env> huge_pages_;
  OnPressure on_pressure_ = nullptr;
  void* pressure_context_ = nullptr;
  OnPurge on_purge_ = nullptr;
  void* purge_context_ = nullptr;
  OnTick on_tick_ = nullptr;
  FurtherArenas<Env>* further_ = nullptr;
};

}  // namespace freeway
