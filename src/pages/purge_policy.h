// SPDX-License-Identifier: MIT
// PurgePolicy: how many free dirty frames may stay backed by memory.
//
// Up to a cap they stay, since the next run will want them; beyond it they are given back at once, since an idle process
// makes no calls in which to do it later. The cap is max(4 MiB, live / 8) plus what was *regretted*: frames that had to
// be faulted in again soon after they were given back. A program that allocates and frees the same 64 MiB over and over
// therefore pays for that a few times only. What it stops reusing is forgotten by a quarter each kTickNs; regret counts
// for 128 MiB at most.
//
// Words     counters, all relaxed: they steer, nothing depends on them
// Checked   tests/unit/purge_policy_test.cc
#pragma once

#include "base/integers.h"
#include "size/size_classes.h"

namespace freeway {

namespace purge_policy {

constexpr std::size_t kFloorFrames = 4 * kMiB / kFrameSize;
constexpr std::size_t kMostRegret = 128 * kMiB / kFrameSize;
constexpr u64 kTickNs = 250'000'000;

constexpr std::size_t cap(std::size_t live_frames, std::size_t regretted) {
  std::size_t by_size = live_frames / 8;
  return (by_size > kFloorFrames ? by_size : kFloorFrames) + regretted;
}

}  // namespace purge_policy

template <class Env>
class PurgePolicy {
 public:
  std::size_t live() const { return live_.load_relaxed(); }    // frames owned by somebody
  std::size_t dirty() const { return dirty_.load_relaxed(); }  // frames free and dirty
  u64 purged_frames() const { return purged_total_.load_relaxed(); }
  u64 purges() const { return purges_.load_relaxed(); }

  void on_take(std::size_t frames, std::size_t dirty_frames) {
    live_.fetch_add_relaxed(frames);
    if (dirty_frames != 0) dirty_.fetch_sub_relaxed(dirty_frames);
    std::size_t fresh = frames - dirty_frames;
    std::size_t lost = lost_.load_relaxed();
    if (fresh == 0 || lost == 0) return;
    std::size_t regret = fresh < lost ? fresh : lost;
    lost_.store_relaxed(lost - regret);
    regretted_.store_relaxed(clamp(regretted_.load_relaxed() + regret, 0, purge_policy::kMostRegret));
  }

  void on_give(std::size_t frames) {
    live_.fetch_sub_relaxed(frames);
    dirty_.fetch_add_relaxed(frames);
  }

  void on_purge(std::size_t frames) {
    dirty_.fetch_sub_relaxed(frames);
    lost_.store_relaxed(lost_.load_relaxed() + frames);
    purged_total_.fetch_add_relaxed(frames);
    purges_.fetch_add_relaxed(1);
  }

  // How many dirty frames should be left now (`now` in ns); more than there are = nothing to purge.
  std::size_t target(u64 now) {
    u64 last = last_tick_.load_relaxed();
    if (now - last >= purge_policy::kTickNs && last_tick_.cas_relaxed(last, now)) {
      regretted_.store_relaxed(regretted_.load_relaxed() * 3 / 4);
      lost_.store_relaxed(lost_.load_relaxed() / 2);
    }
    std::size_t cap = purge_policy::cap(live(), regretted_.load_relaxed());
    return dirty() > cap ? cap / 4 * 3 : ~std::size_t{0};
  }

 private:
  using Counter = typename Env::template Atomic<std::size_t>;
  Counter live_, dirty_, lost_, regretted_;
  typename Env::template Atomic<u64> last_tick_, purged_total_, purges_;
};

}  // namespace freeway
