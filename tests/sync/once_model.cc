// SPDX-License-Identifier: MIT
// once_model.cc: src/sync/once.h (the arena's reservation, the mode, the page that tells forks) and src/sync/lives.h:
// what is published once, whoever does it.
//
// Promises  all who ask get one value and see what its maker did; what was made too late is dropped once, never what
//           was published; a thread that stops for ever keeps nobody waiting, and what it made is all that is lost.
//           Every thread of a process has one epoch and one survivor; a child's is another
// Bounds    2 and 3 threads of up to 2 calls, a maker that refuses at most once; weak memory, source-DPOR, exhausted.
//           Stops: each thread for ever at each operation. Forks: sleep sets, exhausted
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sync/lives.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

struct OnceProgram {
  static constexpr int kThreads = 3;
  int calls[kThreads];
  int refusals;  // makes that yield nothing
  Once<ModelEnv> once;
  ModelEnv::Atomic<u32> made;
  ModelEnv::Plain<u32> content[8];  // what a value stands for, written by its maker
  int dropped[8] = {};
  u64 got[kThreads][2] = {};

  OnceProgram(int first, int second, int third, int refuse) : calls{first, second, third}, refusals(refuse) {
    model_name(once, "once");
    for (int i = 0; i < 8; ++i) model_name(content[i], "content", i);
  }

  void thread(int id) {
    for (int i = 0; i < calls[id]; ++i) {
      const u64 value = once.get(
          [this]() -> u64 {
            const u32 n = made.fetch_add_relaxed(1) + 1;
            if (static_cast<int>(n) <= refusals) return 0;
            content[n].set(n);
            return n;
          },
          [this](u64 late) { ++dropped[late]; });
      got[id][i] = value;
      if (value != 0) model_check(content[value].get() == value, "what was published is seen");
    }
    if (calls[id] == 0 && refusals < 0)
      if (const u64 value = once.peek()) model_check(content[value].get() == value, "what was published is seen");
  }

  void finish() {
    const u64 value = once.peek();
    model_observe(value);
    u32 kept = 0;
    for (u32 n = 1; n < 8; ++n) {
      const bool is_made = n <= made.load_relaxed() && static_cast<int>(n) > refusals;
      model_check(dropped[n] == 0 || (is_made && n != value && dropped[n] == 1), "what was late is dropped once");
      kept += is_made && dropped[n] == 0;
    }
    const u32 stopped = model_stalled() >= 0 ? 1 : 0;
    model_check(kept <= (value != 0 ? 1U : 0U) + stopped, "nothing is lost");
    for (int id = 0; id < kThreads; ++id)
      for (int i = 0; i < 2; ++i) {
        model_check(got[id][i] == 0 || got[id][i] == value, "there is one value");
        model_check(id == model_stalled() || i >= calls[id] || got[id][i] != 0 || refusals > 0, "a value was got");
      }
  }
};

Scenario once(int first, int second, int third, int refuse = 0) {
  return {"calls " + std::to_string(first) + " | " + std::to_string(second) + " | " + std::to_string(third) +
              (refuse > 0 ? ", a refusal" : ""),
          program_type<OnceProgram>(first, second, third, refuse)};
}
std::vector<Scenario> scenarios() {
  return {once(1, 1, 0),    once(2, 1, 0), once(1, 0, 0, -1), once(2, 2, 0),
          once(1, 1, 0, 1), once(1, 1, 1), once(2, 1, 1, 1)};
}

TEST(OnceModel, PromisesHold) { expect_hold(scenarios()); }
TEST(OnceModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}

// Names
// -----------------------------------------------------------------------------------------------------------------

// Scripts: c call claimant(); F fork; T make the third thread.
enum class Pages { kWiped, kNotOffered, kRefusedOnce };

class LivesProgram;
LivesProgram* world = nullptr;

struct NameEnv : ModelEnv {
  static u64 wiped_page();
  static void drop_page(u64 page);
  static bool is_first_thread();
};

class LivesProgram {
 public:
  static constexpr int kThreads = 3;
  static constexpr unsigned kMadeLater = 1U << 2;

  LivesProgram(Pages pages, const char* first, const char* second, const char* third)
      : kept_pages_(pages), script_{first, second, third} {
    world = this;
    model_name(lives_, "lives");
    for (auto& page : pages_) model_name(page, "page", static_cast<int>(&page - pages_));
  }
  void thread(int id) {
    for (const char* move = script_[id]; *move != 0; ++move) {
      if (*move == 'c') {
        const Claimant who = lives_.claimant(static_cast<u64>(id) + 1);
        answers_[count_++] = {who, id, forked_ >= 0};
      } else if (*move == 'F') {
        model_fork();
        first_ = forked_ = id;
        for (auto& page : pages_) page.store_relaxed(0);
      } else {
        model_make_threads();
      }
    }
  }
  void finish() {
    for (int i = 0; i < count_; ++i) {
      const auto& [a, thread, in_child] = answers_[i];
      model_check(Claimant::thread(a.self) == static_cast<u64>(thread) + 1, "a thread bears its own name");
      model_check(Claimant::epoch(a.self) == Claimant::epoch(a.survivor) && Claimant::epoch(a.self) != 0, "one epoch");
      model_observe(a.survivor);
      for (int k = 0; k < count_; ++k) {
        const auto& [b, other, later] = answers_[k];
        if (in_child == later) {
          model_check(a.survivor == b.survivor || kept_pages_ == Pages::kRefusedOnce, "a process has one survivor");
          model_check(!a.may_replace(b.self), "what is held in this process is not taken over");
        } else if (kept_pages_ == Pages::kWiped) {
          model_check(Claimant::epoch(a.self) != Claimant::epoch(b.self), "a child has another epoch");
        }
        // What the thread that forked held before is still its own; what stayed behind is nobody's.
        if (in_child && !later && other == forked_)
          model_check(!a.may_replace(b.self), "the survivor keeps what it holds");
        if (in_child && !later && other != forked_ && kept_pages_ == Pages::kWiped && Claimant::thread(a.survivor) != 0)
          model_check(a.may_replace(b.self), "what stayed behind is taken over");
      }
    }
    model_check(dropped_ <= 2, "only pages that came too late are dropped");
  }

 private:
  friend struct NameEnv;
  struct Answer {
    Claimant who;
    int thread;
    bool in_child;
  };
  Pages kept_pages_;
  const char* script_[kThreads];
  Lives<NameEnv> lives_;
  ModelEnv::Atomic<u64> pages_[4];
  ModelEnv::Atomic<u32> made_;
  Answer answers_[12] = {};
  int count_ = 0, first_ = 0, forked_ = -1, dropped_ = 0;
};

u64 NameEnv::wiped_page() {
  if (world->kept_pages_ == Pages::kNotOffered) return Lives<NameEnv>::kNoSupport;
  const u32 n = world->made_.fetch_add_relaxed(1);
  if (world->kept_pages_ == Pages::kRefusedOnce && n == 0) return 0;
  model_check(n < 4, "no more pages than are asked for");
  return reinterpret_cast<u64>(&world->pages_[n]);
}
void NameEnv::drop_page(u64) { ++world->dropped_; }
bool NameEnv::is_first_thread() { return model_thread() == world->first_; }

Scenario lives(Pages pages, const char* first, const char* second, const char* third = "") {
  constexpr const char* kPages[] = {"", "no wiped pages, ", "refused once, "};
  Scenario each{std::string(kPages[static_cast<int>(pages)]) + first + " | " + second + (*third ? " | " : "") + third,
                program_type<LivesProgram>(pages, first, second, third)};
  each.options.reduction = Reduction::kSleep;
  return each;
}
std::vector<Scenario> names() {
  return {lives(Pages::kWiped, "c", "c"),
          lives(Pages::kWiped, "cc", "c"),
          lives(Pages::kWiped, "c", "cFc"),
          lives(Pages::kWiped, "c", "Fcc"),
          lives(Pages::kWiped, "c", "cFTc", "c"),
          lives(Pages::kWiped, "c", "FcT", "c"),
          lives(Pages::kWiped, "", "cFTc", "cc"),
          lives(Pages::kNotOffered, "c", "cFTc", "c"),
          lives(Pages::kRefusedOnce, "cc", "cFTc", "c"),
          lives(Pages::kRefusedOnce, "cc", "c")};
}

TEST(LivesModel, PromisesHold) { expect_hold(names()); }
TEST(LivesModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = names();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}

TEST(OnceMutants, AreCaught) {
  for (const char* mutant : {"published twice", "late values stay"}) expect_mutant_caught(scenarios(), mutant);
  expect_mutant_caught(names(), "whoever comes first survived");
}
TEST(OnceMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(scenarios(), "sync/once.h"); }

}  // namespace
}  // namespace freeway::model
