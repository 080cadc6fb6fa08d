// SPDX-License-Identifier: MIT
//
// into_model.cc: shared/into.h: handing out a block and noting it in a slot as one step.
//
// Promises  wherever the caller is killed, the slot holds a block that is live, or nothing, and no other block is live
// Bounds    a worker that dies before any of its stores, and one that recovers or allocates; weak memory, source-DPOR,
//           exhausted
#include <gtest/gtest.h>

#include "shared/tests/world.h"

namespace freeway::model {
namespace {

std::vector<Scripts> deaths() {
  return with_deaths(
      {
          {.script = {"az", "r"}},
          {.before = {"a"}, .script = {"z", "r"}},
          {.script = {"Az", "r"}},
          {.script = {"Az", "A"}},
          {.script = {"az", "m"}},
          {.before = {"ma"}, .script = {"zd", "m"}},
      },
      0);
}

TEST(SharedIntoModel, ABlockIsInItsSlotOrFree) { expect_all_hold(shared_scenarios(deaths())); }

TEST(SharedIntoMutants, AreCaught) {
  const auto all = shared_scenarios(deaths());
  for (const char* mutant : {"into: not recorded", "into: recorded late", "into: live before it is noted"})
    expect_mutant_caught(all, mutant);
  expect_mutant_caught(shared_scenarios(with_deaths({{.before = {"a"}, .script = {"z", "r"}}}, 0)),
                       "into: not recorded");
}

}  // namespace
}  // namespace freeway::model
