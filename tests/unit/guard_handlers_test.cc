// SPDX-License-Identifier: MIT
//
// guard_handlers_test.cc: the table of the program's handlers, and the change of what has an exchange alone, whatever
// others put there meanwhile.
#include "guard/handler_table.h"

#include <gtest/gtest.h>

#include <utility>

#include "test_env.h"

namespace freeway::guard {
namespace {

using Four = HandlerTable<test::TestEnv, 4>;

TEST(HandlerTable, AHandlerHasOneEntryForEver) {
  Four table{};
  EXPECT_EQ(table.entry_of(70), 0u);
  EXPECT_EQ(table.entry_of(80), 1u);
  EXPECT_EQ(table.entry_of(70), 0u);
  EXPECT_EQ(table.handler(0), 70u);
  EXPECT_EQ(table.handler(1), 80u);
}

TEST(HandlerTable, WhereAllEntriesAreOthersThereIsNone) {
  Four table{};
  for (u64 handler = 1; handler <= 4; ++handler) EXPECT_EQ(table.entry_of(handler), handler - 1);
  EXPECT_EQ(table.entry_of(5), Four::kNone);
  EXPECT_EQ(table.entry_of(4), 3u);
}

// What others want there, by numbers from 1 on; changed, it is 100 more.
int changed(int value) { return value < 100 ? value + 100 : value; }

// A cell into which others put something before this or that exchange of ours. Bit i of `puts`: before the i-th; of
// `raw`: as it is, else changed.
int changed_beside(unsigned puts, unsigned raw, int first) {
  int cell = first, last = first, exchanges = 0;
  const auto exchange = [&](int next) {
    if ((puts >> exchanges & 1) != 0) {
      last = 10 + exchanges;
      cell = (raw >> exchanges & 1) != 0 ? last : changed(last);
    }
    ++exchanges;
    EXPECT_LT(exchanges, 20) << "it comes to an end";
    return std::exchange(cell, next);
  };
  change_by_exchange(first, exchange, changed);
  // What was put there before an exchange that was made.
  EXPECT_EQ(cell, changed(last)) << "puts " << puts << " raw " << raw;
  return exchanges;
}

TEST(ChangeByExchange, OneExchangeWhereNobodyElseIs) { EXPECT_EQ(changed_beside(0, 0, 1), 1); }
TEST(ChangeByExchange, NoneWhereItIsChangedAlready) { EXPECT_EQ(changed_beside(0, 0, 101), 0); }
TEST(ChangeByExchange, TheLastThatOthersPutThereStays) {
  for (unsigned puts = 0; puts < 64; ++puts)
    for (unsigned raw = 0; raw < 64; ++raw) {
      changed_beside(puts, raw, 1);
      changed_beside(puts, raw, 101);
    }
}

}  // namespace
}  // namespace freeway::guard
