// SPDX-License-Identifier: MIT
// profile_live_model.cc: src/profile/live_blocks.h: the sampled blocks that are live.
//
// Promises  a block that was put is there until it is taken, once; what others see of an entry belongs to one block;
//           none is refused while there is room near it; a thread that stops for ever keeps at most the entry in its
//           hands
// Bounds    3 threads of up to 4 moves, 1 or 2 entries; weak memory, source-DPOR, exhausted. Stops: each thread for
//           ever at each operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "profile/live_blocks.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

// Scripts: + puts a block of the thread's own, - takes it again; x takes the block of thread 0 (a second free); l
// looks.
template <u32 kEntries> struct LiveProgram {
  static constexpr int kThreads = 3;
  using Blocks = profile::LiveBlocks<ModelEnv, kEntries>;

  const char* script[kThreads];
  int writers;  // how many threads put blocks
  alignas(64) unsigned char memory[Blocks::bytes(kEntries)] = {};
  Blocks blocks;
  u32 put[kThreads] = {}, taken[kThreads] = {};

  LiveProgram(const char* first, const char* second, const char* third, int puts)
      : script{first, second, third}, writers(puts) {
    blocks.init(reinterpret_cast<uptr>(memory), kEntries);
    model_name(blocks, "blocks");
  }

  static uptr address_of(int id) { return 16 * (static_cast<uptr>(id) + 1); }

  u32 look() {
    u32 count = 0;
    blocks.each([&](const profile::LiveBlock& block) {
      ++count;
      model_check(block.site == block.address && block.bytes == block.address && block.born == block.address &&
                      block.place == block.address,
                  "facts are of one block");
    });
    return count;
  }

  void thread(int id) {
    const uptr mine = address_of(id);
    profile::LiveBlock block;
    bool there = false;
    for (const char* move = script[id]; *move != 0; ++move) {
      if (*move == '+') {
        there = blocks.put({mine, mine, mine, mine, static_cast<u32>(mine)});
        model_check(there || writers > static_cast<int>(kEntries), "there is room");
        put[id] += there;
      } else if (*move == '-' && there) {
        const bool got = blocks.take(mine, block);
        taken[id] += got;
        // Another may have freed it as well, which the program may not.
        model_check(got || *script[1] == 'x', "what was put is there");
        if (got)
          model_check(block.site == mine && block.bytes == mine && block.born == mine && block.place == mine,
                      "with its facts");
        there = false;
      } else if (*move == 'x') {
        taken[0] += blocks.take(address_of(0), block);
      } else if (*move == 'l') {
        look();
      }
    }
  }

  void finish() {
    const u32 left = look();
    u32 expected = 0;
    for (int id = 0; id < kThreads; ++id) {
      model_check(taken[id] <= put[id] || model_stalled() >= 0, "a block is taken once");
      expected += put[id] - taken[id];
    }
    if (model_stalled() < 0) model_check(left == expected, "what was put and not taken is there");
    model_observe(left);
  }
};

template <u32 kEntries = 2> Scenario live(const char* first, const char* second, const char* third = "", int puts = 2) {
  return {std::string(first) + " | " + second + " | " + third + (kEntries == 1 ? ", one entry" : ""),
          program_type<LiveProgram<kEntries>>(first, second, third, puts)};
}
std::vector<Scenario> scenarios() {
  return {live("+", "+"),   live("+-", "+-"),         live("+-+", "l"),       live("+-+-", "+"),
          live("+-", "x"),  live("+", "+", "l"),      live("+", "+", "+", 3), live("+-", "+-", "+", 3),
          live("+-", "xx"), live<1>("+-", "+-", "l"), live<1>("+-", "+-"),    live<1>("+-", "+", "l")};
}

TEST(ProfileLiveModel, PromisesHold) { expect_hold(scenarios()); }
TEST(ProfileLiveModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(ProfileLiveMutants, AreCaught) {
  for (const char* mutant : {"put in two steps", "taken in two steps"}) expect_mutant_caught(scenarios(), mutant);
}
TEST(ProfileLiveMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(scenarios(), "profile/live_blocks.h"); }

}  // namespace
}  // namespace freeway::model
