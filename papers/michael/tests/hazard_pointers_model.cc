// SPDX-License-Identifier: MIT
// hazard_pointers_model.cc: papers/michael/hazard_pointers.h by itself: its records, and what protect() and is_hazard()
// promise around one word from which nodes are taken and to which they are put back. (Michael's descriptors, which use
// them, have papers/michael/tests/desc_avail_model.cc.)
//
// Scripts   r read: protect the node that the word has, confirm it, compare with it later, leave
//           t take the node out, put the one taken before back unless it is a hazard
// Promises  while a reader may still compare with a node, nobody puts that node back; a record has one taker at a time,
//           who sees what the one before left in it; a thread that stops for ever keeps one record
// Bounds    2 and 3 threads of 1 or 2 actions; weak memory, source-DPOR, exhausted. Stops: each thread for ever at each
//           operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "papers/michael/hazard_pointers.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

struct Node {
  u32 number;
};
using Hazards = HazardPointers<ModelEnv, Node>;

struct HazardProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kRecords = 4;
  const char* script[kThreads];
  Hazards hazards;
  Hazards::Record records[kRecords];
  ModelEnv::Atomic<u32> made;
  Node nodes[3] = {{0}, {1}, {2}};
  ModelEnv::Atomic<Node*> word{&nodes[1]};
  Node* comparing[kThreads] = {};  // between confirming and leaving
  Hazards::Record* mine[kThreads] = {};

  HazardProgram(const char* first, const char* second, const char* third) : script{first, second, third} {
    model_name(word, "word");
    for (u32 r = 0; r < kRecords; ++r) {
      model_name(records[r].taken, "taken", static_cast<int>(r));
      model_name(records[r].hazard, "hazard", static_cast<int>(r));
      model_name(records[r].older, "older", static_cast<int>(r));
      model_name(records[r].deferred, "deferred", static_cast<int>(r));
    }
  }

  Hazards::Record* claim(int id) {
    Hazards::Record* record = hazards.claim([this]() -> Hazards::Record* {
      const u32 n = made.fetch_add_relaxed(1);
      return n < kRecords ? &records[n] : nullptr;
    });
    model_check(record != nullptr, "as many records as there are threads");
    record->deferred.set(record->deferred.get() == nullptr ? &nodes[0] : nullptr);  // a race unless it is ours alone
    return mine[id] = record;
  }
  void leave(int id) {
    hazards.leave(mine[id]);
    mine[id] = nullptr;
  }

  void read(int id) {
    Hazards::Record* record = claim(id);
    Node* node = word.load_relaxed();
    if (node != nullptr) {
      Hazards::protect(record, node);
      Node* seen = node;
      if (word.cas_release(seen, node)) {  // still there, and the hazard is published
        comparing[id] = node;
        model_check(word.load_relaxed() != &nodes[0], "the word has a node, or none");  // a moment later
        comparing[id] = nullptr;
      }
    }
    leave(id);
  }

  void take(int id) {
    Hazards::Record* record = claim(id);
    Node* node = word.load_relaxed();
    if (node != nullptr && word.cas_acquire(node, nullptr)) {
      // From here on nobody new confirms it; whoever has, is found.
      if (!hazards.is_hazard(node)) {
        for (Node* each : comparing) model_check(each != node, "nobody compares with a node that is put back");
        Node* none = nullptr;
        word.cas_release(none, node);
      }
    }
    (void)record;
    leave(id);
  }

  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) *move == 'r' ? read(id) : take(id);
  }

  void finish() {
    u32 taken = 0, listed = 0;
    hazards.each([&](Hazards::Record& record) {
      ++listed;
      const bool is_taken = record.taken.load_relaxed() != 0;
      taken += is_taken;
      model_check(is_taken || record.hazard.load_relaxed() == nullptr, "a free record protects nothing");
    });
    model_observe(listed * 10 + (word.load_relaxed() != nullptr));
    const u32 stopped = model_stalled() >= 0 ? 1 : 0;
    model_check(taken <= stopped, "records are left");
    model_check(listed + stopped >= made.load_relaxed(), "no record is lost");
    model_check(listed <= kThreads, "a record a thread at most");
  }
};

Scenario scenario(const char* first, const char* second, const char* third = "") {
  return {std::string(first) + " | " + second + (*third ? " | " : "") + third,
          program_type<HazardProgram>(first, second, third)};
}
std::vector<Scenario> scenarios() {
  return {scenario("r", "t"), scenario("r", "r"), scenario("t", "t"), scenario("rr", "t"), scenario("r", "tt")};
}

TEST(HazardPointersModel, PromisesHold) {
  expect_hold(scenarios());
  std::vector<Scenario> more = {scenario("rt", "tr"), scenario("r", "t", "t")};
  for (Scenario& each : more) each.options.max_executions = 20000;
  expect_hold(more);
}

TEST(HazardPointersModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}

TEST(HazardPointersMutants, AreCaught) {
  for (const char* mutant :
       {"records are taken without looking", "hazards are not looked for", "left before it is cleared"})
    expect_mutant_caught(scenarios(), mutant);
}
TEST(HazardPointersMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(scenarios(), "michael/hazard_pointers.h"); }

}  // namespace
}  // namespace freeway::model
