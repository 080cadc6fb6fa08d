// SPDX-License-Identifier: MIT
// claim_model.cc: src/sync/claim.h: who has something for itself, by names and by numbers, and who takes it over in the
// child of a fork.
//
// Promises  between take and release nobody else has it, and the next holder sees what the one before did; a claim that
//           was released can be had; one whose holder stopped for ever cannot, and nobody waits; in the child of a fork
//           what stayed behind can be had, and what the child's own thread has cannot
// Bounds    2 and 3 threads of up to 3 claims; weak memory, exhausted. Stops: each thread for ever at each operation.
//           Forks: sleep sets, exhausted
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sync/claim.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

// Scripts: c take by name, n by number, k pass on what was kept; each works on what the claim guards, and releases it.
// K take by name and keep it, in the thread's kept name; h take by name and stay in it, r release it; F fork.
class ClaimProgram {
 public:
  static constexpr int kThreads = 3;

  ClaimProgram(const char* first, const char* second, const char* third) : script_{first, second, third} {
    model_name(claim_, "claim");
    model_name(guarded_, "guarded");
  }

  void thread(int id) {
    for (const char* move = script_[id]; *move != 0; ++move) {
      const Claimant who = claimant(id);
      if (*move == 'c' && claim_.take(who)) work(0);
      if (*move == 'n' && claim_.take(kNumber)) work(0);
      if (*move == 'K' && claim_.take(who)) work(kept(id));
      if (*move == 'k')
        for (int other = 0; other < kThreads; ++other)
          if (claim_.holder() == kept(other) && claim_.pass(kept(other), who.self)) work(0);
      if (*move == 'h' && claim_.take(who)) {
        stays_ = id;
        stays_with_ = guarded_.get();
      }
      if (*move == 'r' && stays_ == id) {
        stays_ = -1;
        model_check(guarded_.get() == stays_with_, "nobody takes it over from a thread of this process");
        work(0);
      }
      if (*move == 'F') fork(id);
    }
  }

  void finish() {
    const Claimant who = claimant(first_);
    model_observe(done_);
    model_observe(claim_.holder());
    const bool may_be_held = model_stalled() >= 0 || stays_ >= 0 || is_kept();
    model_check(may_be_held || !claim_.is_taken(who), "what was released can be had");
    model_check(guarded_.get() == done_, "each holder saw what the one before it did");
  }

 private:
  static constexpr u64 kNumber = 1;

  Claimant claimant(int id) const {
    return {Claimant::name(thread_of(id), epoch_), Claimant::name(thread_of(first_), epoch_)};
  }
  static u64 thread_of(int id) { return static_cast<u64>(id) + 1; }
  static u64 kept(int id) { return Claimant::name(thread_of(id), 1) | Claimant::kSpareBit; }
  bool is_kept() const { return (claim_.holder() & Claimant::kSpareBit) != 0; }

  void work(u64 next) {
    guarded_.set(guarded_.get() + 1);  // a race unless it is ours alone
    ++done_;
    claim_.release(next);
  }
  void fork(int id) {
    model_fork();
    first_ = id;
    ++epoch_;
    if (ModelEnv::mutant("the epoch alone decides")) first_ = 9;
    if (stays_ != id) stays_ = -1;
    done_ = guarded_.get();  // who stayed behind may have been about to say that it has done it
  }

  const char* script_[kThreads];
  Claim<ModelEnv> claim_;
  ModelEnv::Plain<u32> guarded_;
  u32 done_ = 0, stays_with_ = 0;
  int first_ = 0, stays_ = -1;
  u64 epoch_ = 1;
};

Scenario scenario(const char* first, const char* second, const char* third = "") {
  return {std::string(first) + " | " + second + (*third ? " | " : "") + third,
          program_type<ClaimProgram>(first, second, third)};
}
std::vector<Scenario> scenarios() {
  return {scenario("c", "c"),      scenario("ccc", "ccc"),  scenario("n", "n"),      scenario("nn", "cn"),
          scenario("K", "k"),      scenario("Kk", "kc"),    scenario("hr", "cc"),    scenario("c", "c", "c"),
          scenario("n", "c", "n"), scenario("K", "k", "k"), scenario("Kc", "k", "c")};
}
// The first thread stays behind, wherever it is.
std::vector<Scenario> forks() {
  std::vector<Scenario> all = {scenario("c", "Fc"), scenario("c", "hFcr"), scenario("cc", "cFcc"), scenario("K", "Fc"),
                               scenario("hr", "hFccr")};
  for (Scenario& each : all) each.options.reduction = Reduction::kSleep;
  return all;
}

TEST(ClaimModel, PromisesHold) { expect_hold(scenarios()); }
TEST(ClaimModel, AChildOfAForkTakesOverWhatStayedBehind) { expect_hold(forks()); }
TEST(ClaimModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}

TEST(ClaimMutants, AreCaught) {
  for (const char* mutant : {"held ones are claimed", "claimed by a store"}) expect_mutant_caught(scenarios(), mutant);
  expect_mutant_caught(forks(), "the epoch alone decides");
}
TEST(ClaimMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(scenarios(), "sync/claim.h"); }

}  // namespace
}  // namespace freeway::model
