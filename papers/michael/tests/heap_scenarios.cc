// SPDX-License-Identifier: MIT
// heap_scenarios.cc: what the heap models run; the letters are explained in heap_program.h.
#include <string>

#include "heap_program.h"

namespace freeway::model {

namespace {

using michael::anchor::Form;

constexpr Policy kOne{1, false, Form::kLinked};
constexpr Policy kTwoSlots{2, false, Form::kLinked};
constexpr Policy kKeep{1, true, Form::kLinked};
constexpr Policy kUntouched{1, false, Form::kUntouched};

Scenario scenario(const char* name, u32 maxcount, const char* setup, const char* first, const char* second,
                  const char* third = "", const Policy& policy = kOne, ListKind list = ListKind::kFifo) {
  std::string full = std::string(name) + ": " + first + " | " + second + (*third ? " | " : "") + third;
  return {full, program_type<HeapProgram>(HeapScript{maxcount, policy, list, setup, {first, second, third}})};
}

struct Situation {
  const char* name;
  u32 maxcount;
  const char* setup;
};

constexpr Situation kSituations[] = {
    {"nothing", 2, ""},
    {"active 1 of 2", 2, "m0"},
    {"full", 2, "mm01"},
    {"partial in the slot", 2, "mmf0"},
    {"partial in the slot, one freer", 2, "mmf1"},
    {"active 1 reserved, 1 free, 1 of 3 in use", 3, "mmf0"},
    {"full, 3 blocks", 3, "mmm001"},
    {"two full", 2, "mmmm0101"},
    {"one in the slot, one in the list", 2, "mmmmf0f1"},
    {"other heap's", 2, "hmm01"},
};

constexpr const char* kPairScripts[] = {"f", "ff", "m", "mf", "mm", "mmF", "hm", "mmf", "fm", "fmm"};
constexpr const char* kTripleScripts[] = {"f", "m", "mf", "mmF", "ff"};

}  // namespace

std::vector<Scenario> heap_scenarios(std::uint64_t limit) {
  std::vector<Scenario> all = {
      scenario("a descriptor comes back into the slot (note: the paper's error)", 2, "mmf0", "f", "mmf"),
      scenario("the same, and it is needed again", 2, "mmf0", "f", "mmfm"),
      scenario("a descriptor comes back, and is EMPTY again", 2, "mmf0", "fm", "mmff"),
      scenario("the slot again, in the next life", 2, "mmf0", "fmmf", "m"),
      scenario("two free the last blocks", 2, "mm01", "f", "f"),
      scenario("two free, one allocates", 2, "mm01", "f", "f", "m"),
      scenario("three free the blocks of one", 3, "mmm012", "f", "f", "f"),
      scenario("two take the last credits", 2, "m0", "m", "m"),
      scenario("two make the first superblock", 2, "", "m", "m"),
      scenario("two make the first superblock, the later is kept", 2, "", "mf", "mf", "", kKeep),
      scenario("two take from the slot", 3, "mmmff0", "m", "m"),
      scenario("take from the slot while it empties", 2, "mmf0", "f", "m"),
      scenario("pop with a free and a malloc between (ABA)", 3, "mmf0", "m", "mfm"),
      scenario("pop, free of what was popped", 3, "mmmff0", "mf", "mf"),
      scenario("the last credit, and a block that was freed", 3, "mm01", "m", "f"),
      scenario("active moves to the other heap", 2, "mm01", "f", "fhm"),
      scenario("update of an active word that is taken", 3, "mmf0", "mm", "mm"),
      scenario("the list: two empty superblocks", 2, "mmmmf0f1", "f", "f"),
      scenario("the list: get and remove", 2, "mmmmf0f1", "f", "m"),
      scenario("out of the list, into the slot, out of it again", 2, "mmmmmmf1f10", "f", "mmF"),
      scenario("the same, trimmed", 2, "mmmmmmf1f1", "t", "mmF"),
      scenario("out of the list and into it again, by three", 2, "mmmmf0f1", "f", "m", "mf"),
      scenario("two slots", 2, "mmmmf0f1", "f", "fm", "", kTwoSlots),
      scenario("untouched: two pop", 3, "", "mm", "m", "", kUntouched),
      scenario("untouched: pop and free", 3, "m0", "fm", "mm", "", kUntouched),
      scenario("LIFO: two empty superblocks", 2, "mmmmf0f1", "f", "f", "", kOne, ListKind::kLifo),
      scenario("LIFO: get and remove", 2, "mmmmf0f1", "f", "m", "", kOne, ListKind::kLifo),
      scenario("moved to the other heap's active word", 4, "", "mmthm", "hm"),
      scenario("trim what another made", 2, "", "m", "t"),
      scenario("trim, free, and the descriptor's next life", 2, "m1", "t", "fm"),
      scenario("trim to EMPTY, and the descriptor's next life", 2, "m1", "tm", "f"),
      scenario("trim takes an EMPTY one from the slot", 2, "mmf1", "tm", "f"),
      scenario("trim and malloc", 2, "m0", "t", "mf"),
      scenario("trim and free", 2, "mm01", "ft", "f"),
      scenario("a block is sent", 2, "", "ms", "rf"),
  };
  for (Scenario& each : all) each.options.max_executions = limit;
  return all;
}

std::vector<Scenario> heap_removal_scenarios() {
  std::vector<Scenario> all;
  for (const ListKind list : {ListKind::kFifo, ListKind::kLifo})
    all.push_back(scenario("a listed one that another made EMPTY goes, and lives again", 2, "mmmmmmf0f1f", "f", "fmmm",
                           "", kOne, list));
  return all;
}

std::vector<Scenario> heap_aba_scenarios() {
  return {scenario("pop with the same anchor before and after", 4, "m1", "m", "mmff", "m")};
}

std::vector<Scenario> heap_long_scenarios() {
  return {
      scenario("three make the first superblock", 2, "", "m", "m", "m"),
      scenario("two trim", 2, "m0", "t", "t"),
      scenario("the paper's error, and a third who allocates", 2, "mmf0", "f", "mmf", "m"),
      scenario("three and one slot", 2, "mmmmf0f1", "f", "f", "m"),
      scenario("three and one list", 2, "mmmmmmf0f1f2", "f", "f", "m"),
  };
}

std::vector<Scenario> heap_pairs(const Policy& policy, ListKind list) {
  std::vector<Scenario> all;
  for (const Situation& situation : kSituations)
    for (const char* first : kPairScripts)
      for (const char* second : kPairScripts)
        all.push_back(scenario(situation.name, situation.maxcount, situation.setup, first, second, "", policy, list));
  return all;
}

std::vector<Scenario> heap_triples() {
  std::vector<Scenario> all;
  for (const Situation& situation : kSituations)
    for (const char* first : kTripleScripts)
      for (const char* second : kTripleScripts)
        for (const char* third : kTripleScripts)
          all.push_back(scenario(situation.name, situation.maxcount, situation.setup, first, second, third));
  return all;
}

}  // namespace freeway::model
