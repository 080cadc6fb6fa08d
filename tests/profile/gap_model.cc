// SPDX-License-Identifier: MIT
// profile_gap_model.cc: src/profile/gap_word.h: the word in a CPU's slab that counts down to the next sampled byte. A
// section does what the assembly does (malloc/*/fast_path.S, *counted*), as tests/cache/rseq shows of that.
//
// Scripts   m malloc of kBlock bytes    L of kLarge bytes    M the same; the thread goes to the other CPU if it is not
//           counted b a profile begins, another one than before
// Promises  what is stored is what is left of a gap: it does not wrap, and no count is lost; a gap that was begun ends
//           once, with one block, which reaches its end; after a profile has begun no gap of an earlier one ends. But
//           for what gap_word.h states: crossings, by who has left the CPU, and by a begin; late draws. Each is one
//           gap. They do happen
// Bounds    3 threads of up to 4 moves on 2 CPUs, one slab; sections begin again once. One word and what hangs on it:
//           loads read the newest value, since an older one is that of an earlier load. Sleep sets, exhausted. Stops:
//           each thread for ever at each operation
#include "profile/gap_word.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

constexpr u64 kBlock = 2, kLarge = 4, kGap = 5;

// The word, and which gap it holds: that is written right behind each operation, so in the word's order.
class Gaps {
 public:
  static constexpr int kNone = 0, kMost = 16;

  struct Seen {
    u64 left = 0;
    int gap = kNone;
  };

  Gaps() {
    model_name(word_, "gap");
    word_.store_relaxed(kGap);
    hold(kGap, 0);
  }

  // What gap_word.h does with the word.
  u64 load_relaxed() { return see().left; }
  bool cas_relaxed(u64& expected, u64 next) {
    if (!word_.cas_relaxed(expected, next)) return false;
    mine().ended = now_;
    hold(next, mine().drawn_for);
    return true;
  }
  void store_relaxed(u64 next) {
    word_.store_relaxed(next);
    mine().ended = mine().seen.gap;
    hold(next, mine().drawn_for);
  }

  Seen see() {
    const u64 left = word_.load_relaxed();
    return mine().seen = {left, now_};
  }
  // A section's store: the gap that it has seen goes on.
  void count(const Seen& seen, u64 bytes) {
    if (ModelEnv::mutant("subtracted where it lies")) word_.fetch_sub_relaxed(bytes);
    else word_.store_relaxed(seen.left - bytes);
    if (now_ != seen.gap) ++crossings_[seen.gap];
    now_ = seen.gap;
    left_[now_] -= bytes;
    model_check(left_[now_] == seen.left - bytes, "no count is lost");
  }

  void draw_for(u64 profile) { mine().drawn_for = profile; }
  // By the running thread: which gap, and what was left of it.
  int ended() { return mine().ended; }
  u64 seen_left() { return mine().seen.left; }

  u64 left() const { return word_.load_relaxed(); }
  int made() const { return made_; }
  u64 profile_of(int gap) const { return profile_[gap]; }
  // The last profile that has begun in this slab; said right behind the store.
  u64 begun() const { return begun_; }
  void set_begun(u64 profile) { begun_ = begun_ < profile ? profile : begun_; }
  // Whether the gap was drawn for a profile before that.
  bool is_late(int gap) const { return late_[gap]; }
  // How often the gap went on behind its end, or behind a begin.
  int crossings(int gap) const { return crossings_[gap]; }

 private:
  struct Mine {
    Seen seen;
    int ended = kNone;
    u64 drawn_for = 0;
  };

  Mine& mine() { return mine_[model_thread()]; }
  void hold(u64 next, u64 profile) {
    if (next == 0) return now_ = kNone, void();
    now_ = ++made_;
    model_check(made_ < kMost, "the script fits");
    left_[now_] = next;
    profile_[now_] = profile;
    late_[now_] = profile < begun_;
  }

  ModelEnv::Atomic<u64> word_;
  int now_ = kNone, made_ = 0;
  u64 left_[kMost] = {}, profile_[kMost] = {};
  u64 begun_ = 0;
  bool late_[kMost] = {};
  int crossings_[kMost] = {};
  Mine mine_[3];
};

enum class Crossings { kStated, kFaults };

class GapProgram {
 public:
  static constexpr int kThreads = 3;

  GapProgram(Crossings crossings, const char* first, const char* second, const char* third)
      : crossings_are_(crossings), script_{first, second, third} {
    model_name(top_, "top");
    model_name(profile_, "profile");
  }

  void thread(int id) {
    const char* script = script_[id];
    for (const char* move = script; *move != 0; ++move) {
      if (*move == 'b') begin_profile();
      else allocate(*move == 'm' ? kBlock : kLarge, *move == 'M');
    }
  }

  void finish() {
    model_check(gaps_.left() <= kGap, "a gap does not wrap");
    bool somebody_crosses = false;
    for (const char* script : script_) somebody_crosses |= std::string(script).find_first_of("Mb") != std::string::npos;
    for (int gap = 1; gap <= gaps_.made(); ++gap) {
      const bool stated = crossings_are_ == Crossings::kStated;
      const int crossings = stated ? gaps_.crossings(gap) : 0, late = stated && gaps_.is_late(gap) ? 1 : 0;
      model_check(ends_[gap] <= 1 + crossings, "a gap ends once");
      model_check(late_ends_[gap] <= crossings + late, "no gap of an earlier profile ends");
      model_check(somebody_crosses || gaps_.crossings(gap) == 0, "threads that stay on the CPU do not cross");
      model_observe(static_cast<u64>(ends_[gap]));
    }
    model_observe(gaps_.left());
  }

 private:
  void begin_profile() {
    const u64 next = profile_.fetch_add_release(1) + 1;
    profile::begin_gap(gaps_);
    gaps_.set_begun(next);
  }

  // From [5] to [6] of the counted form: whether the block could be counted.
  bool count(u64 bytes, u64& begun) {
    const auto body = [&] {
      const Gaps::Seen seen = gaps_.see();
      begun = gaps_.begun();
      if (seen.left <= bytes) return false;
      gaps_.count(seen, bytes);
      top_.store_relaxed(seen.left);  // stands for the block
      return true;
    };
    return ModelEnv::mutant("sections do not begin again") ? body() : model_section(body);
  }

  // freeway_malloc_chosen.
  void allocate(u64 bytes, bool leaves) {
    u64 begun = 0;
    model_cpu(0);
    if (count(bytes, begun)) return;
    if (leaves) model_cpu(1);
    const bool ended = profile::end_gap<ModelEnv>(gaps_, bytes, [&] {
      begun = gaps_.begun();  // behind the look at what is left
      gaps_.draw_for(profile_.load_acquire());
      return kGap;
    });
    if (!ended) return;
    const int gap = gaps_.ended();
    model_check(gap != Gaps::kNone, "what ends was begun");
    model_check(gaps_.seen_left() <= bytes, "a gap ends in the block that reaches its end");
    ++ends_[gap];
    if (gaps_.profile_of(gap) < begun) ++late_ends_[gap];
  }

  Crossings crossings_are_;
  const char* script_[kThreads];
  Gaps gaps_;
  ModelEnv::Atomic<u64> top_, profile_;
  int ends_[Gaps::kMost] = {}, late_ends_[Gaps::kMost] = {};
};

Scenario gaps(const char* first, const char* second, const char* third = "", Crossings crossings = Crossings::kStated) {
  Scenario each{std::string(first) + " | " + second + (*third ? " | " : "") + third,
                program_type<GapProgram>(crossings, first, second, third)};
  each.options.reduction = Reduction::kSleep;
  each.options.memory = MemoryModel::kSequential;
  return each;
}
std::vector<Scenario> scenarios() {
  return {gaps("mm", "mm"),    gaps("mm", "L"),     gaps("L", "L"),      gaps("LL", "L"),     gaps("mmm", "M"),
          gaps("mm", "MM"),    gaps("LMm", "m"),    gaps("mmL", "b"),    gaps("mLmL", "bb"),  gaps("mML", "bb"),
          gaps("m", "L", "b"), gaps("L", "L", "b"), gaps("L", "L", "L"), gaps("mm", "M", "b")};
}

TEST(ProfileGapModel, PromisesHold) { expect_hold(scenarios()); }
TEST(ProfileGapModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}

// What is stated is true: neither can be left out.
TEST(ProfileGapModel, AGapThatIsCrossedEndsTwice) {
  for (const Scenario& each : {gaps("mmm", "MM", "", Crossings::kFaults), gaps("mmL", "b", "", Crossings::kFaults)}) {
    const Result result = explore_program(each.program, each.options);
    EXPECT_TRUE(result.failed) << each.name;
  }
}

TEST(ProfileGapMutants, AreCaught) {
  for (const char* mutant : {"any gap has ended", "ended by a store", "one that was not begun has ended",
                             "subtracted where it lies", "sections do not begin again"})
    expect_mutant_caught(scenarios(), mutant);
}

}  // namespace
}  // namespace freeway::model
