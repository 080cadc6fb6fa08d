// SPDX-License-Identifier: MIT
// PurgePolicy: how many free dirty frames may stay backed by memory.
//
// As many as were needed a moment ago: the recent peak of live frames and an eighth more, less the live ones; at least
// 4 MiB. More than that, up to half the peak, may stay for a tick or two: large blocks of changing sizes leave gaps
// that the next ones do not fit into, so the free dirty frames change with each of them. Only frames that were dirty
// and free throughout a whole tick (kTickNs) are too many. If more are dirty, a quarter of the allowed ones stay, so
// that the next frames freed are not too many again. The peak is forgotten by a quarter of its distance to the present
// every tick, so a program that goes through the same phase again finds its memory, and one that does not gives it back
// within a second or two, a step at a time, whenever one of its threads is on a slow path. (A process that makes no
// calls at all keeps its memory; it may call malloc_trim.) Giving back at once costs a program of phases a page fault
// per page and phase: measured, blocks of 1 KiB in phases of a million took 4 times as long.
//
// But of what a burst leaves, all beyond 8 MiB and an eighth of what is live goes at once, as far as a *budget*
// reaches: 64 MiB for each second that the process has lived (a refault of so much takes 0.01 to 0.04 s), 4 GiB at
// most. What is asked for again within about a second is *learned*: so much more stays, with a half-life of 5.5 s.
//
// Memory that the program asked to have ready (keep) stays whatever the peak; with never(), which FREEWAY_PURGE=never
// and the program's mallopt each ask for, everything does.
//
// Words     counters, the peak, the budget, all relaxed: they steer, nothing depends on them. Each thread that lets go
//           at once may overdraw the budget by a step, and each purge by a run of 4 MiB
// Checked   tests/pages/frames_model.cc, tests/pages/purge_policy_test.cc
#pragma once

#include "base/check.h"
#include "base/compiler.h"
#include "base/integers.h"
#include "size/size_classes.h"

namespace freeway {

namespace purge_policy {

constexpr std::size_t kFloorFrames = 4 * kMiB / kFrameSize;
constexpr std::size_t kStepFrames = 16 * kMiB / kFrameSize;  // given back in one call, about a millisecond
constexpr u64 kTickNs = 250'000'000;
constexpr u64 kMostTicks = 32;
constexpr u64 kRefusedTicks = 8;
constexpr u64 kDoubtTicks = 8;
constexpr std::size_t kAtOnceFloorFrames = 8 * kMiB / kFrameSize;
constexpr std::size_t kLeastAtOnceFrames = 4 * kMiB / kFrameSize;
constexpr std::size_t kBudgetATickFrames = 16 * kMiB / kFrameSize;
constexpr std::size_t kMostBudgetFrames = 4 * kGiB / kFrameSize;
constexpr u64 kMostLearnedTicks = 256;

// The peak after `ticks` ticks without a new one.
constexpr std::size_t decayed(std::size_t peak, std::size_t live, u64 ticks) {
  if (peak <= live) return live;
  std::size_t above = peak - live;
  for (u64 i = clamp(ticks, 0, kMostTicks); i > 0 && above > 0; --i) above -= ceil_div(above, 4);
  return live + above;
}

// What was learned, after `ticks` ticks: a 32nd less each.
constexpr std::size_t forgotten(std::size_t learned, u64 ticks) {
  for (u64 i = clamp(ticks, 0, kMostLearnedTicks); i > 0 && learned > 0; --i) learned -= ceil_div(learned, 32);
  return learned;
}

// Dirty frames that may stay, if live and dirty ones may be the peak and `1 / part` of it.
constexpr std::size_t allowed(std::size_t peak, std::size_t live, std::size_t part) {
  const std::size_t top = peak > live ? peak : live;
  const std::size_t dirty = top + top / part - live;
  return dirty > kFloorFrames ? dirty : kFloorFrames;
}
constexpr std::size_t allowed_for_long(std::size_t peak, std::size_t live) { return allowed(peak, live, 8); }
constexpr std::size_t allowed_for_a_tick(std::size_t peak, std::size_t live) { return allowed(peak, live, 2); }

}  // namespace purge_policy

template <class Env> class PurgePolicy {
 public:
  std::size_t live() const { return live_.load_relaxed(); }  // frames with an owner
  // Frames free and dirty; more than there are once threads have vanished between the steps that count them.
  FREEWAY_INLINE std::size_t dirty() const { return dirty_.load_relaxed(); }
  u64 purged_bytes() const { return purged_total_.load_relaxed(); }
  u64 purges() const { return purges_.load_relaxed(); }

  void on_take(std::size_t frames, std::size_t dirty_frames) {
    const std::size_t live = live_.fetch_add_relaxed(frames) + frames;
    if (dirty_frames != 0) note_least(fewer_dirty(dirty_frames));
    if (const std::size_t given = given_.load_relaxed(); FREEWAY_UNLIKELY(given != 0))
      learn(given, frames - dirty_frames);
    if (live > peak_.load_relaxed()) peak_.store_relaxed(live);
  }

  void on_give(std::size_t frames) {
    live_.fetch_sub_relaxed(frames);
    dirty_.fetch_add_relaxed(frames);
  }

  void on_give_zero(std::size_t frames) { live_.fetch_sub_relaxed(frames); }

  void on_purge(std::size_t frames) {
    fewer_dirty(frames);
    on_purge_bytes(frames * kFrameSize);
  }

  // Counts memory given back that is not of free frames.
  void on_purge_bytes(std::size_t bytes) {
    purged_total_.fetch_add_relaxed(bytes);
    purges_.fetch_add_relaxed(1);
  }

  // A purge went through everything and found no more: the frames still counted were counted by threads that vanished
  // before they could uncount them; or by slow ones, or behind the purge's back. From now on target() leaves that many
  // aside, until the count falls below, or they are found after all.
  void on_exhausted() { lost_.store_relaxed(dirty_.load_relaxed()); }

  // Whether it is time to look for the frames put aside: at once, and every `ticks` ticks.
  bool doubts(u64 now, u64 ticks = purge_policy::kDoubtTicks) {
    u64 again = doubt_from_.load_relaxed();
    return lost_.load_relaxed() != 0 && now >= again &&
           doubt_from_.cas_relaxed(again, now + ticks * purge_policy::kTickNs);
  }
  // `found` frames were found while `counted` were counted: no more than the rest can be lost.
  void on_found(std::size_t found, std::size_t counted) {
    const std::size_t missing = counted > found ? counted - found : 0;
    if (missing < lost_.load_relaxed()) lost_.store_relaxed(missing);
  }

  // The kernel refused to take memory back (mlockall, before Linux 5.18): the next try is kRefusedTicks away.
  void on_refused() {
    quiet_until_.store_relaxed(last_tick_.load_relaxed() + purge_policy::kRefusedTicks * purge_policy::kTickNs);
  }

  // So many more free frames stay dirty, as long as memory lasts; how many did before.
  std::size_t keep(std::size_t frames) { return kept_.fetch_add_relaxed(frames); }
  void keep_fewer(std::size_t frames) { kept_.fetch_sub_relaxed(frames); }
  std::size_t kept() const { return kept_.load_relaxed(); }
  // The process's clock is `now`: time counts from here on. (Else from the first target() on.)
  void begin(u64 now) { last_tick_.store_relaxed(now); }
  // Who asks that nothing is given back by itself: one that does is enough. The helper does for moments
  // (malloc/idle.cc).
  enum Asker { kUser, kProgram, kHelper };
  void never(Asker asker, bool never) { never_[asker].store_relaxed(never); }
  bool is_never() const {
    return never_[kUser].load_relaxed() || never_[kProgram].load_relaxed() || never_[kHelper].load_relaxed();
  }

  // How many dirty frames a purge may leave now (`now` in ns). kNoPurge: none is due, however many are dirty by the
  // time of the purge: frames that others freed meanwhile are theirs to look at.
  static constexpr std::size_t kNoPurge = ~std::size_t{0};
  std::size_t target(u64 now, bool none_may_stay = false) {
    u64 last = last_tick_.load_relaxed();
    const u64 ticks = now > last ? (now - last) / purge_policy::kTickNs : 0;  // another thread's clock may be ahead
    const std::size_t counted = dirty();
    if (ticks > 0 && last_tick_.cas_relaxed(last, now)) {
      peak_.store_relaxed(purge_policy::decayed(peak_.load_relaxed(), live(), ticks));
      idle_.store_relaxed(least_.load_relaxed());
      least_.store_relaxed(counted);
      if (last != 0) pass(ticks);
    }
    if (counted < lost_.load_relaxed()) lost_.store_relaxed(counted);
    const std::size_t lost = lost_.load_relaxed();
    if (now < quiet_until_.load_relaxed() || counted <= lost) return kNoPurge;
    if (none_may_stay) return lost;
    if (is_never()) return kNoPurge;
    const std::size_t dirty_now = counted - lost;
    const std::size_t peak = peak_.load_relaxed();
    std::size_t allowed = purge_policy::allowed_for_long(peak, live());
    if (idle_.load_relaxed() <= lost + allowed) allowed = purge_policy::allowed_for_a_tick(peak, live());
    const std::size_t step = dirty_now < purge_policy::kStepFrames ? 0 : dirty_now - purge_policy::kStepFrames;
    if (dirty_now <= kept()) return kNoPurge;
    if (dirty_now <= allowed) {
      const std::size_t frames = at_once(dirty_now);
      return frames == 0 ? kNoPurge : lost + dirty_now - frames;
    }
    const std::size_t fewer = allowed / 4 > kept() ? allowed / 4 : kept();
    return lost + (fewer > step ? fewer : step);
  }

 private:
  using Counter = typename Env::template Atomic<std::size_t>;
  // Returns the remaining count, which is never below the truth: frames are counted before others can take or purge
  // them.
  std::size_t fewer_dirty(std::size_t frames) {
    const std::size_t before = dirty_.fetch_sub_relaxed(frames);
    FREEWAY_XCHECK(before >= frames);
    return before - frames;
  }
  void note_least(std::size_t dirty_now) {
    if (dirty_now < least_.load_relaxed()) least_.store_relaxed(dirty_now);
  }

  // --- At once. ------------------------------------------------------------------------------------------------------

  void pass(u64 ticks) {
    const std::size_t more =
        budget_.load_relaxed() + clamp(ticks, 0, kMostBudgetTicks) * purge_policy::kBudgetATickFrames;
    budget_.store_relaxed(clamp(more, 0, purge_policy::kMostBudgetFrames));
    given_.store_relaxed(purge_policy::decayed(given_.load_relaxed(), 0, ticks));
    learned_.store_relaxed(purge_policy::forgotten(learned_.load_relaxed(), ticks));
  }

  // How many of the dirty frames go now; the budget has paid for them.
  std::size_t at_once(std::size_t dirty_now) {
    const std::size_t budget = budget_.load_relaxed();
    if (FREEWAY_LIKELY(budget < purge_policy::kLeastAtOnceFrames)) return 0;
    std::size_t stays = purge_policy::kAtOnceFloorFrames + live() / 8 + learned_.load_relaxed();
    if (stays < kept()) stays = kept();
    if (dirty_now < stays + purge_policy::kLeastAtOnceFrames) return 0;
    std::size_t frames = dirty_now - stays;
    if (frames > purge_policy::kStepFrames) frames = purge_policy::kStepFrames;
    if (frames > budget) frames = budget;
    budget_.store_relaxed(budget - frames);
    given_.store_relaxed(given_.load_relaxed() + frames);
    return frames;
  }

  // `clean` frames were taken, and as many as that of the `given` ones are missed.
  FREEWAY_NOINLINE void learn(std::size_t given, std::size_t clean) {
    const std::size_t missed = clean < given ? clean : given;
    given_.store_relaxed(given - missed);
    learned_.store_relaxed(learned_.load_relaxed() + missed);
  }

  static constexpr u64 kMostBudgetTicks = purge_policy::kMostBudgetFrames / purge_policy::kBudgetATickFrames;
  Counter live_, dirty_, lost_, peak_, kept_;
  typename Env::template Atomic<bool> never_[3];  // by Asker
  Counter least_, idle_;  // the fewest dirty frames since the last tick, and between the last two
  Counter budget_, given_, learned_;
  typename Env::template Atomic<u64> last_tick_, quiet_until_, doubt_from_, purged_total_, purges_;
};

}  // namespace freeway
