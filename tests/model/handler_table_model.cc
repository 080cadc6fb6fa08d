// SPDX-License-Identifier: MIT
// handler_table_model.cc: src/guard/handler_table.h: entries that stand for the program's handlers.
//
// Promises  who asks for a handler's entry gets one that stands for it, then and for ever; who asks for the same
//           handler gets the same; none only if as many others have one
// Bounds    3 threads of up to 2 handlers each, 2 and 3 entries; weak memory, source-DPOR, exhausted. Stops: each
//           thread for ever at each operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "guard/handler_table.h"
#include "model/explorer.h"
#include "model/model_env.h"
#include "model/scenarios.h"

namespace freeway::model {
namespace {

// Each thread's script: the handlers that it sets, '1' to '9'.
template <unsigned kEntries>
struct TableProgram {
  using Table = guard::HandlerTable<ModelEnv, kEntries>;
  static constexpr int kThreads = 3;
  const char* script[kThreads];
  int handlers;  // how many different ones there are
  Table table;
  unsigned got[10];
  bool asked[10] = {};

  TableProgram(const char* first, const char* second, const char* third, int different)
      : script{first, second, third}, handlers(different) {
    model_name(table, "table");
  }
  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) {
      const unsigned number = static_cast<unsigned>(*move - '0');
      const unsigned entry = table.entry_of(number);
      if (entry == Table::kNone) {
        model_check(handlers > static_cast<int>(kEntries), "there is room");
        continue;
      }
      model_check(table.handler(entry) == number, "the entry stands for the handler");
      model_check(!asked[number] || got[number] == entry, "a handler has one entry");
      asked[number] = true;
      got[number] = entry;
    }
  }
  void finish() {
    for (unsigned number = 1; number < 10; ++number) {
      model_check(!asked[number] || table.handler(got[number]) == number, "for ever");
      model_observe(asked[number] ? got[number] : kEntries);
    }
  }
};

template <unsigned kEntries>
Scenario table(const char* first, const char* second, const char* third, int different) {
  return {std::to_string(kEntries) + " entries: " + first + " | " + second + " | " + third,
          program_type<TableProgram<kEntries>>(first, second, third, different)};
}
std::vector<Scenario> scenarios() {
  return {table<2>("1", "1", "", 1),   table<2>("1", "2", "", 2),   table<2>("12", "21", "", 2),
          table<2>("1", "2", "1", 2),  table<2>("12", "3", "1", 3), table<3>("12", "21", "3", 3),
          table<2>("11", "2", "3", 3), table<3>("12", "13", "2", 3)};
}

TEST(HandlerTableModel, PromisesHold) { expect_hold(scenarios()); }
TEST(HandlerTableModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(HandlerTableMutants, AreCaught) {
  for (const char* mutant : {"added in two steps", "the same again"}) expect_mutant_caught(scenarios(), mutant);
}

}  // namespace
}  // namespace freeway::model
