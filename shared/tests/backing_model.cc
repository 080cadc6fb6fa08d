// SPDX-License-Identifier: MIT
//
// backing_model.cc: shared/backing.h: memory of frames that comes and goes, and a process that is killed in between.
//
// Promises  what is used has memory. Wherever a worker dies, and wherever who cleans up after it dies, it is known of
//           each frame whether it has memory, so trimming leaves none to free frames; also where the kernel gives only
//           some of it, takes none back, or says that it failed
// Bounds    a worker that dies before any of its stores, of which the kernel's pages are some; one or two that recover,
//           allocate or trim, of whom one may die; up to 3 frames; weak memory, source-DPOR, exhausted
#include <gtest/gtest.h>

#include "shared/tests/world.h"

namespace freeway::model {
namespace {

constexpr HeapSize kTwo = {.frames = 2, .capacity = 2}, kKept = {.punched = 2};
constexpr HeapSize kRefuses = {.frames = 2, .capacity = 2, .refuses = true};
constexpr HeapSize kKeeps = {.frames = 2, .capacity = 2, .keeps = true};
constexpr HeapSize kKeepsOne = {.keeps = true, .punched = 2};

// With kKept a frame that becomes free has memory until it is trimmed.
std::vector<Scripts> living() {
  return {
      {.before = {"mfd"}, .script = {"T", "m"}, .size = kKept},
      {.before = {"mfd"}, .script = {"Tm", "T"}, .size = kKept},
      {.before = {"mfd"}, .script = {"T", "T"}, .size = kKept},
      {.before = {"mfd"}, .script = {"T", "mfd"}, .size = kKeepsOne},
      {.script = {"lf", "T"}, .size = kRefuses},
      {.script = {"lf", "m"}, .size = kKeeps},
      {.script = {"lfl", "T"}, .size = kKeeps},
  };
}
std::vector<Scripts> deaths() {
  return with_deaths(
      {
          {.script = {"lf", "r"}, .size = kTwo},
          {.script = {"lf", "rT"}, .size = kTwo},
          {.script = {"lf", "l"}, .size = {.frames = 3, .capacity = 3}},
          {.script = {"lf", "rA"}, .size = kTwo},
          {.script = {"mfd", "T"}, .size = kKept},
          {.before = {"mfd"}, .script = {"T", "m"}, .size = kKept},
          {.before = {"mfd"}, .script = {"T", "rT"}, .size = kKept},
          {.script = {"l", "r"}, .size = kRefuses},
          {.script = {"lf", "r"}, .size = kKeeps},
      },
      0);
}
// The first has died; the others recover it and take what is free of its run, at once.
std::vector<Scripts> beside_the_dead() {
  return with_deaths_before({{.before = {"l"}, .script = {"", "m", "r"}, .size = kTwo},
                             {.before = {"lf"}, .script = {"", "mT", "r"}, .size = kTwo}},
                            0);
}
// The first has died; who recovers it dies, or sits down in its place and dies.
std::vector<Scripts> recoverers_deaths() {
  std::vector<Scripts> all;
  for (const Scripts& program : with_deaths_before({{.before = {"lf"}, .script = {"", "r", "r"}, .size = kTwo},
                                                    {.before = {"lf"}, .script = {"", "S", "r"}, .size = kTwo}},
                                                   0))
    for (const Scripts& each : with_deaths({program}, 1)) all.push_back(each);
  return all;
}

TEST(SharedBackingModel, WhatIsUsedHasMemory) { expect_hold(shared_scenarios(living())); }
TEST(SharedBackingModel, NoPageIsForgottenWhereverAWorkerDies) { expect_all_hold(shared_scenarios(deaths())); }
TEST(SharedBackingModel, WhoRecoversLeavesTheLivingTheirs) { expect_all_hold(shared_scenarios(beside_the_dead())); }
TEST(SharedBackingModel, OrWhoRecoversDies) { expect_all_hold(shared_scenarios(recoverers_deaths())); }

TEST(SharedBackingMutants, AreCaught) {
  std::vector<Scripts> all = deaths();
  for (const auto& more : {living(), beside_the_dead(), recoverers_deaths()})
    all.insert(all.end(), more.begin(), more.end());
  const auto scenarios = shared_scenarios(all);
  for (const char* mutant : {"backing: memory comes before its mark", "backing: all before it has come",
                             "backing: all until it has gone", "backing: no mark before it has gone",
                             "backing: all that was in doubt", "run: left in doubt", "run: others' memory settled"})
    expect_mutant_caught(scenarios, mutant);
}

}  // namespace
}  // namespace freeway::model
