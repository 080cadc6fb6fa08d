// SPDX-License-Identifier: MIT
// profile_wanted_model.cc: src/profile/wanted.h, who wants a profile, with src/malloc/malloc_form.h, what malloc does
// for it.
//
// Scripts   1 2 the program starts a profile with that interval    0 it stops    + - a tracer comes, goes, and somebody
//           looks l look whether one listens    t tick, as slow mallocs do    s sample, if a profile is made
// Promises  when the last call has returned, malloc's form is what the word says; in the word are the program's last
//           call and the tracer that is there; the interval of a profile stays while the program wants it, and is known
//           when it has ended; who samples sees the tables. With a thread stopped for ever the next tick mends malloc's
//           form; until then small blocks are not sampled, or calls are slower, and no thread waits
// Handlers  of a thread in the middle of a call are threads that run while it stands: among these executions
// Bounds    3 threads of up to 3 moves; weak memory, source-DPOR, exhausted. Stops: each thread for ever at each
//           operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "malloc/malloc_form.h"
#include "profile/wanted.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

namespace wanted = profile::wanted;

struct Hot {
  ModelEnv::Atomic<u64> malloc_form, step_limit, byte_limit;
};

class WantedProgram {
 public:
  static constexpr int kThreads = 3;
  static constexpr u64 kUsual = 7;  // a tracer's

  // The setup is thread 0's, before the others are there.
  WantedProgram(const char* setup, const char* first, const char* second, const char* third)
      : setup_(setup), script_{first, second, third} {
    const MallocForm plain = malloc_form(false, true, false);
    hot_.malloc_form.store_relaxed(plain.form);
    hot_.step_limit.store_relaxed(plain.step_limit);
    hot_.byte_limit.store_relaxed(plain.byte_limit);
    model_name(wanted_, "wanted");
    model_name(hot_.malloc_form, "form");
    model_name(hot_.step_limit, "step limit");
    model_name(hot_.byte_limit, "byte limit");
    model_name(listens_, "listens");
    model_name(tables_, "tables");
    model_name(gap_, "gap");
    run(setup_);
  }

  void thread(int id) { run(script_[id]); }

  void finish() {
    if (model_stalled() < 0) model_check(agrees(), "malloc's form is what the word says");
    tick();
    model_check(agrees(), "a tick mends malloc's form");
    const u64 now = wanted_.interval();
    if (model_stalled() < 0) check_word(now);
    model_observe(now);
    model_observe(wanted_.last());
  }

 private:
  void run(const char* script) {
    for (const char* move = script; *move != 0; ++move) {
      switch (*move) {
        case '0': stop(); break;
        case '+':
        case '-':
          listens_.store_relaxed(*move == '+');
          look();
          break;
        case 'l': look(); break;
        case 't': tick(); break;
        case 's': sample(); break;
        default: start(static_cast<u64>(*move - '0'));
      }
    }
  }

  struct Followed {
    WantedProgram& program;
    u64 interval() const { return program.wanted_.interval(); }
    u64 confirm() const { return program.wanted_.confirm(); }
    void begin() const { program.gap_.store_relaxed(0); }
  };

  MallocForm right_form() const { return malloc_form(wanted_.interval() != 0, true, false); }
  bool agrees() const { return has_form(hot_, right_form()); }
  void follow() { follow_interval<ModelEnv>(hot_, true, false, Followed{*this}); }
  // All who start write the same, and whoever comes later may read it: as Sites::init does.
  bool make_tables() { return tables_.store_relaxed(1), true; }

  void start(u64 interval) {
    make_tables();
    if (wanted_.want(wanted::kProgram, interval)) started_ = interval;
    follow();
  }
  void stop() {
    wanted_.want_no_more(wanted::kProgram);
    follow();
  }
  void look() {
    if (wanted_.follow_tracers(listens_.load_relaxed() != 0, kUsual, [this] { return make_tables(); })) follow();
  }
  void tick() {
    look();
    if (!agrees()) follow();
  }
  void sample() {
    if (wanted_.interval() != 0) model_check(tables_.load_relaxed() != 0, "who samples sees the tables");
  }

  // What must be in the word where one thread alone speaks for the program, or for tracers.
  void check_word(u64 now) {
    int programs = 0, tracers = 0;
    char program = 0, tracer = 0;
    const auto last_of = [](const std::string& moves, const char* kinds, char& last) {
      const auto at = moves.find_last_of(kinds);
      if (at != std::string::npos) last = moves[at];
      return at != std::string::npos;
    };
    last_of(setup_, "012", program);
    last_of(setup_, "+-", tracer);
    for (const char* script : script_) {
      programs += last_of(script, "012", program);
      tracers += last_of(script, "+-", tracer);
    }
    if (programs > 1 || tracers > 1) return;
    const bool wants = program == '1' || program == '2', listens = tracer == '+';
    model_check(now != 0 || (!wants && !listens), "what is wanted is made");
    if (!wants && !listens) model_check(now == 0, "what nobody wants has ended");
    if (wants) model_check(now == started_, "the program has its own interval");
    if (tracer == 0) model_check(wanted_.last() == started_, "the last interval stays known");
  }

  const char* setup_;
  const char* script_[kThreads];
  profile::Wanted<ModelEnv> wanted_;
  Hot hot_;
  ModelEnv::Atomic<u64> listens_, tables_, gap_;
  u64 started_ = 0;  // by the program's thread, where there is one
};

Scenario wants(const char* setup, const char* first, const char* second, const char* third = "") {
  return {std::string(*setup ? setup : "nothing") + ": " + first + " | " + second + (*third ? " | " : "") + third,
          program_type<WantedProgram>(setup, first, second, third)};
}
std::vector<Scenario> scenarios() {
  return {wants("", "1", "0"),     wants("", "1", "1"),   wants("", "1", "2"),   wants("", "1", "+"),
          wants("", "1", "s"),     wants("", "10", "s"),  wants("", "102", "s"), wants("", "+", "-"),
          wants("", "+s", "1"),    wants("1", "0", "+"),  wants("1", "0", "0"),  wants("1", "02", "s"),
          wants("1", "0", "1"),    wants("1+", "0", "-"), wants("1+", "0", "s"), wants("+", "1", "-"),
          wants("+", "1", "t"),    wants("1", "0", "t"),  wants("1", "2", "0"),  wants("10", "2", "+"),
          wants("", "1", "0", "s")};
}

TEST(ProfileWantedModel, EachHasHisBitAndTheProgramItsInterval) {
  constexpr u64 kBoth = wanted::kProgram | wanted::kTracer;
  for (const u64 who : {u64{0}, wanted::kProgram, wanted::kTracer, kBoth})
    for (const u64 last : {u64{1}, u64{2}, wanted::kMostInterval}) {
      const u64 word = last << wanted::kWhoBits | who;
      EXPECT_EQ(wanted::last(word), last);
      EXPECT_EQ(wanted::interval(word), who == 0 ? 0 : last);
      for (const u64 one : {wanted::kProgram, wanted::kTracer}) {
        EXPECT_EQ(wanted::who(wanted::without(word, one)), who & (kBoth ^ one));
        EXPECT_EQ(wanted::last(wanted::without(word, one)), last);
        EXPECT_TRUE(wanted::may_want(word, one, last));
        const bool programs = (who & wanted::kProgram) != 0, nobodys = who == 0;
        EXPECT_EQ(wanted::may_want(word, one, 3), nobodys || (!programs && one == wanted::kProgram));
        EXPECT_EQ(wanted::with(word, one, 3), u64{3} << wanted::kWhoBits | who | one);
      }
    }
}

TEST(ProfileWantedModel, PromisesHold) { expect_hold(scenarios()); }
TEST(ProfileWantedModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(ProfileWantedMutants, AreCaught) {
  for (const char* mutant : {"a stop ends everybody's", "stopped in two steps", "followed once", "confirmed by a load"})
    expect_mutant_caught(scenarios(), mutant);
}
TEST(ProfileWantedMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(scenarios(), "profile/wanted.h"); }

}  // namespace
}  // namespace freeway::model
