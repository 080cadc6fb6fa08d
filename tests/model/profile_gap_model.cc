// SPDX-License-Identifier: MIT
// profile_gap_model.cc: src/profile/gap_word.h: the word in a CPU's slab that counts down to the next sampled byte. A
// section does what the assembly does (arch/*/fast_path.S, *counted*), as tests/rseq shows of that.
//
// Scripts   m malloc of kBlock bytes    L malloc of kLarge bytes    M the same; the thread goes to the other CPU if the gap has ended
//           b a profile begins: another one than before, followed as it is in the slab's gap
// Promises  a gap is never more than one that was drawn: it does not wrap; it is ended once, with a block for whoever ends it.
//           But for crossings: of who left the CPU, or begins a profile, into one section each. What is not counted is
//           what was drawn for; what counts twice are sections that were interrupted between store and commit. Who
//           mallocs after a profile began ends gaps of that profile, but for one a crossing or a late draw
// Bounds    3 threads of up to 3 moves on 2 CPUs, one slab; sections begin again once. Weak memory, sleep sets, exhausted.
//           Stops: each thread for ever at each operation
#include "profile/gap_word.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/explorer.h"
#include "model/model_env.h"
#include "model/scenarios.h"

namespace freeway::model {
namespace {

class GapProgram {
 public:
  static constexpr int kThreads = 3;
  static constexpr u64 kBlock = 2, kLarge = 4, kGap = 5;

  GapProgram(const char* first, const char* second, const char* third) : script_{first, second, third} {
    model_name(gap_, "gap");
    model_name(top_, "top");
    install(kGap);
    gap_.store_relaxed(kGap);
  }

  void thread(int id) {
    if (*script_[id] == 0) return;
    if (*script_[id] != 'b') model_cpu(0);
    for (const char* move = script_[id]; *move != 0; ++move) {
      if (*move == 'b')
        begin_profile();
      else
        allocate(*move == 'm' ? kBlock : kLarge, *move == 'M');
    }
  }

  void finish() {
    const u64 left = gap_.load_relaxed();
    model_check(left <= kGap, "a gap does not wrap");
    int twice = 0, old = 0;
    for (int gap = 0; gap < gaps_; ++gap) twice += ended_[gap] > 1 ? ended_[gap] - 1 : 0;
    for (int i = 0; i < chosen_; ++i) old += chosen_late_[i];
    model_check(twice <= crossed_ends_, "a gap ends once, but for crossings");
    model_check(old <= crossed_begins_ + late_draws_, "a gap is of the profile that is made, but for crossings");
    // Each byte that was counted is in a gap: begun, ended or left.
    if (crossed_ends_ + crossed_begins_ == 0 && begins_ == 0 && model_stalled() < 0)
      model_check(counted_ + left + forgotten_ == kGap * static_cast<u64>(gaps_), "no count is lost");
    model_check(counted_ >= given_, "each block is counted that was not chosen or drawn for");
    if (interrupted_ == 0 && model_stalled() < 0) model_check(counted_ == given_, "and once");
    model_observe(left);
    model_observe(static_cast<u64>(chosen_));
  }

 private:
  static constexpr int kMost = 12;

  // What a thread of the model knows of the word: no locations, written right behind the operation.
  struct Known {
    int gap, of;  // which gap it is; -1: none is begun
  };

  void install(u64 bytes) {
    now_ = {gaps_, profile_};
    if (bytes != 0) ++gaps_;
  }

  // [5] and [6]; whether the block is the caller's.
  bool count(u64 bytes) {
    bool counted_once = false;
    return model_section([&] {
      if (counted_once) ++interrupted_, counted_once = false;
      const u64 left = gap_.load_relaxed();
      const Known seen = now_;
      const int begins = begins_, ends = ends_;
      if (left <= bytes && !ModelEnv::mutant("not compared with what is left")) return false;
      if (ModelEnv::mutant("subtracted where it lies"))
        gap_.fetch_sub_relaxed(bytes);
      else
        gap_.store_relaxed(left - bytes);
      counted_ += bytes;
      counted_once = true;
      crossed_begins_ += begins != begins_;
      crossed_ends_ += ends != ends_;
      now_ = seen;
      top_.fetch_add_relaxed(1);
      given_ += bytes;
      return true;
    });
  }

  void allocate(u64 bytes, bool leaves) {
    const int profile = followed_;
    if (count(bytes)) return;
    if (leaves) model_cpu(1);
    Known drawn{}, before{};
    int begins = 0;
    const bool ended = profile::end_gap<ModelEnv>(gap_, bytes, [&] {
      drawn = {0, profile_};
      begins = begins_;
      before = now_;
      return kGap;
    });
    (void)drawn;
    if (!ended) return;
    (void)profile;
    (void)before;
    (void)begins;
  }

  const char* script_[kThreads];
  ModelEnv::Atomic<u64> gap_, top_;
  Known now_{};
  int gaps_ = 0, profile_ = 0, followed_ = 0, begins_ = 0, ends_ = 0, interrupted_ = 0;
  int crossed_ends_ = 0, crossed_begins_ = 0, late_draws_ = 0, chosen_ = 0;
  int ended_[kMost] = {}, chosen_late_[kMost] = {};
  u64 counted_ = 0, given_ = 0, forgotten_ = 0;
  void begin_profile();
};
}  // namespace
}  // namespace freeway::model
