// SPDX-License-Identifier: MIT
//
// left_behind_test.cc: a block of more than 2 MiB that realloc copies to wholly new memory leaves its own memory behind
// (docs/decisions/048): counted by the kernel, in a process that has no other memory that is free.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "abi_test.h"
#include "scenario.h"

namespace freeway::test {
namespace {

// Two arrays that grow to 8 MiB by turns, so that neither has room behind it: what the process has more then, in KiB.
FREEWAY_SCENARIO(TwoArraysDouble) {
  require(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "huge pages cannot be switched off");
  const size_t before = anonymous_rss();
  char* arrays[2] = {};
  for (size_t size = 64 * kKiB; size <= 8 * kMiB; size *= 2)
    for (unsigned i = 0; i < 2; ++i) {
      arrays[i] = static_cast<char*>(hide(realloc(arrays[i], size)));
      require(arrays[i] != nullptr, "realloc");
      require(size == 64 * kKiB || holds(arrays[i], size / 2, i), "the contents were lost");
      fill(arrays[i], size, i);
    }
  dprintf(1, "%zu", (anonymous_rss() - before) / kKiB);
  for (char* array : arrays) free(array);
}

// 16 MiB are the arrays. Of the two of 4 MiB the last 2 MiB each stay, as carry gives nothing back behind its last
// piece; the rest is of shorter ones, which are only copied: 23.4 MiB in all. If those of 4 MiB stayed whole it would
// be 4 MiB more, 27.4. The bound lies between. A tick of the purge policy can only make it less.
TEST(LeftBehind, TwoArraysThatDoubleKeepLittleOfWhatTheyWere) {
  const Outcome outcome = run_scenario("TwoArraysDouble");
  ASSERT_TRUE(outcome.succeeded()) << outcome.err;
  const size_t held = std::stoul(outcome.out) * kKiB;
  EXPECT_GE(held, 16 * kMiB) << "what is not counted is not tested";
  EXPECT_LT(held, 26 * kMiB);
}

}  // namespace
}  // namespace freeway::test
