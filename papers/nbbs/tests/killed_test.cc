// SPDX-License-Identifier: MIT
// killed_test.cc: several processes on one MAP_SHARED tree, some of which are killed: at each step of each operation,
// one by one, and with SIGKILL at any instruction. The others go on; what is lost is what is promised, in bytes and as
// the largest block that stays refused; repairing and freeing what the dead had brings everything back.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <random>
#include <vector>

#include "papers/nbbs/buddy.h"
#include "tests/support/proof.h"
#include "tests/support/test_env.h"

namespace freeway::nbbs {
namespace {

using SharedTree = Buddy<test::TestEnv>;

struct Form {
  unsigned levels_per_word;
  Kind kind;
};
constexpr Form kForms[] = {{1, Kind::kCorrected},   {3, Kind::kCorrected},   {4, Kind::kCorrected},
                           {1, Kind::kCorrectedUp}, {3, Kind::kCorrectedUp}, {4, Kind::kCorrectedUp}};

class Killed : public testing::TestWithParam<Form> {
 protected:
  void TearDown() override {
    for (auto [memory, bytes] : mappings_) munmap(memory, bytes);
  }
  void* shared(std::size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    mappings_.push_back({memory, bytes});
    return memory;
  }
  SharedTree* make(unsigned levels) {
    const Settings s{levels, 4, 4 + levels - 1, GetParam().levels_per_word, GetParam().kind};
    auto* tree = static_cast<SharedTree*>(shared(SharedTree::bytes(s)));
    tree->init(s);
    return tree;
  }
  // Runs f in a process that dies at its n-th step; false if it got through.
  static bool dies_at(int step, const std::function<void()>& f) {
    const pid_t child = fork();
    if (child == 0) {
      test::TestEnv::at_step("", [] { _exit(7); }, static_cast<unsigned>(step));
      f();
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status) == 7;
  }
  static std::vector<Node> blocks(SharedTree& tree) {
    std::vector<Node> all;
    tree.each_block([&](Node n) { all.push_back(n); });
    return all;
  }
  static void count_kills(int steps) {
    test::proof("stops and kills", "processes on one tree, ended at each step", "kills", static_cast<u64>(steps));
  }
  void kill_processes(std::mt19937_64& random, int rounds);
  // Every node of every level can be had, one after the other.
  static void expect_all_free(SharedTree& tree) {
    for (Node n = 1; n <= last_of(tree.settings().levels - 1); ++n) {
      ASSERT_TRUE(tree.take_node(n)) << "node " << n;
      ASSERT_TRUE(tree.give(n));
    }
  }

 private:
  std::vector<std::pair<void*, std::size_t>> mappings_;
};
INSTANTIATE_TEST_SUITE_P(AllForms, Killed, testing::ValuesIn(kForms));

constexpr unsigned kLevels = 9;  // words on a path: 9, 3, 3

// A claim that never became a block may be anywhere on its way: it occupies its node, at most.
TEST_P(Killed, InAllocAtAnyStepLosesAtMostThatBlock) {
  const Node n = first_of(kLevels - 1) + 5, brother = n ^ 1;
  int steps = 0;
  for (;; ++steps) {
    SharedTree& tree = *make(kLevels);
    if (!dies_at(steps, [&] { tree.take_node(n); })) break;
    // The others go on at once, beside it and elsewhere, up to the half of the tree that it is not in.
    EXPECT_TRUE(tree.take_node(brother)) << "step " << steps;
    EXPECT_TRUE(tree.give(brother));
    EXPECT_TRUE(tree.take_node(3)) << "step " << steps;
    EXPECT_TRUE(tree.give(3));
    tree.repair_all();
    // Lost: its 16 bytes if it had claimed them, and with them what is above; refused is then everything over half of
    // the tree.
    const bool claimed = !tree.take_node(n);
    if (!claimed) {
      EXPECT_TRUE(tree.give(n));
    } else {
      EXPECT_TRUE(tree.give(n)) << "who knows that it is dead may free it";
      tree.repair_all();
    }
    EXPECT_EQ(claimed, steps > 0) << "the claim is the first step";
    expect_all_free(tree);
  }
  EXPECT_GE(steps, 2) << "a claim and a climb at least";
  count_kills(steps);
}

TEST_P(Killed, InFreeAtAnyStepLosesNoBlockButRefusesBiggerOnesUntilRepaired) {
  const Node n = first_of(kLevels - 1) + 5;
  std::size_t most_refused = 0;
  int steps = 0;
  const auto stranded = [&]() -> SharedTree* {
    SharedTree* tree = make(kLevels);
    EXPECT_TRUE(tree->take_node(n));
    return dies_at(steps, [&] { tree->give(n); }) ? tree : nullptr;
  };
  SharedTree* first = stranded();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(blocks(*first), std::vector<Node>{n}) << "killed before it freed: it is a dead process's block";
  EXPECT_TRUE(first->give(n)) << "who knows that it is dead may free it";
  expect_all_free(*first);
  for (steps = 1;; ++steps) {
    SharedTree* tree = stranded();
    if (tree == nullptr) break;
    EXPECT_TRUE(blocks(*tree).empty());
    // The block can be had at once, and its next free clears the way that the dead left.
    ASSERT_TRUE(tree->take_node(n)) << "step " << steps;
    ASSERT_TRUE(tree->give(n));
    expect_all_free(*tree);
    // Without that: what is refused, and that whoever wants it can mend it.
    tree = stranded();
    Node smallest = 0;
    for (Node wanted = n / 2; wanted != 0; wanted /= 2) {
      const bool refused = !tree->take_node(wanted);
      if (!refused) {  // taken and given back, it cleared the hints above it
        ASSERT_TRUE(tree->give(wanted));
        tree = stranded();
        continue;
      }
      if (smallest == 0) smallest = wanted;
      most_refused = std::max(most_refused, bytes_of(tree->settings(), wanted));
    }
    if (smallest == 0) continue;  // killed when it had cleared all
    tree->repair(smallest);
    ASSERT_TRUE(tree->take_node(smallest)) << "step " << steps;
    ASSERT_TRUE(tree->give(smallest));
    tree->repair_all();
    expect_all_free(*tree);
  }
  EXPECT_GE(steps, 3) << "a free, a look and a clear at least";
  count_kills(steps);
  EXPECT_EQ(most_refused, std::size_t{16} << (kLevels - 1)) << "up to the whole tree";
}

// A climb that meets a bigger block takes its claim back; killed in that, it leaves its claim or a hint.
TEST_P(Killed, InARollBackAtAnyStepLosesAtMostThatBlock) {
  const Node n = first_of(kLevels - 1) + 5;
  const Node bigger = n >> (kLevels - 2);  // half of the tree
  int steps = 0;
  for (;; ++steps) {
    SharedTree& tree = *make(kLevels);
    ASSERT_TRUE(tree.take_node(bigger));
    if (!dies_at(steps, [&] { tree.take_node(n); })) break;
    ASSERT_TRUE(tree.give(bigger)) << "its owner notices nothing";
    tree.repair_all();
    const bool claimed = !tree.take_node(n);
    EXPECT_TRUE(!claimed || steps > 0) << "its claim is the first step";
    ASSERT_TRUE(tree.give(n));
    tree.repair_all();
    expect_all_free(tree);
  }
  EXPECT_GE(steps, 2);
  count_kills(steps);
}

// --- SIGKILL at any instruction. -------------------------------------------------------------------------------------

struct Arena {
  // Who owns a smallest block: 0 nobody, else a process. Written by owners only, so that a double hand-out is seen.
  Atomic<u32> owner[256];
  // What a process has or is about to have or to free: what its death strands. Written before the tree is changed.
  Atomic<u64> has[8][64];
  Atomic<u32> double_handouts;
  Atomic<u64> operations[8];
};

// Allocates and frees for ever.
[[noreturn]] void work(SharedTree& tree, Arena& arena, unsigned id, u64 seed) {
  std::mt19937_64 random(seed);
  const unsigned levels = tree.settings().levels;
  Node mine[64] = {};
  for (;;) {
    const unsigned slot = static_cast<unsigned>(random() % 64);
    if (mine[slot] == 0) {
      const unsigned level = levels - 1 - static_cast<unsigned>(random() % 4);
      const Node n = tree.take(level, starting_node(level, random()));
      if (n == 0) continue;
      const u64 first = offset_of(tree.settings(), n) / 16, count = bytes_of(tree.settings(), n) / 16;
      for (u64 i = first; i < first + count; ++i) {
        u32 nobody = 0;
        if (!arena.owner[i].cas_relaxed(nobody, id + 1)) arena.double_handouts.fetch_add_relaxed(1);
      }
      arena.has[id][slot].store_relaxed(n);
      mine[slot] = n;
    } else {
      const Node n = mine[slot];
      const u64 first = offset_of(tree.settings(), n) / 16, count = bytes_of(tree.settings(), n) / 16;
      for (u64 i = first; i < first + count; ++i)
        if (arena.owner[i].exchange_relaxed(0) != id + 1) arena.double_handouts.fetch_add_relaxed(1);
      arena.has[id][slot].store_relaxed(0);
      mine[slot] = 0;
      tree.give(n);
    }
    arena.operations[id].fetch_add_relaxed(1);
  }
}

// Kills one of three processes on a new tree `rounds` times, and all of them at the end.
void Killed::kill_processes(std::mt19937_64& random, int rounds) {
  constexpr unsigned kProcesses = 3;
  SharedTree& tree = *make(kLevels);
  Arena& arena = *new (shared(sizeof(Arena))) Arena;
  pid_t child[kProcesses];
  const auto start = [&](unsigned id) {
    const u64 its_seed = random();
    child[id] = fork();
    if (child[id] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a failed test leaves nobody behind
      work(tree, arena, id, its_seed);
    }
  };
  for (unsigned id = 0; id < kProcesses; ++id) start(id);
  // What the dead had: their blocks, freed by the one who knows that they are dead, and at most one claim or half-done
  // free.
  const auto bury = [&](unsigned id) {
    std::vector<Node> theirs;
    for (auto& slot : arena.has[id]) {
      if (Node n = slot.load_relaxed()) theirs.push_back(n);
      slot.store_relaxed(0);
    }
    for (Node n : theirs) {
      const u64 first = offset_of(tree.settings(), n) / 16, count = bytes_of(tree.settings(), n) / 16;
      for (u64 i = first; i < first + count; ++i) {
        u32 seen = id + 1;
        arena.owner[i].cas_relaxed(seen, 0);
      }
      tree.give(n);
    }
  };
  for (int round = 0; round < rounds; ++round) {
    const unsigned victim = static_cast<unsigned>(random() % kProcesses);
    usleep(static_cast<useconds_t>(random() % 3000));
    ASSERT_EQ(kill(child[victim], SIGKILL), 0);
    ASSERT_EQ(waitpid(child[victim], nullptr, 0), child[victim]);
    bury(victim);
    // The others are not held up.
    const unsigned other = (victim + 1) % kProcesses;
    const u64 before = arena.operations[other].load_relaxed();
    while (arena.operations[other].load_relaxed() == before) usleep(50);
    start(victim);
  }
  u64 operations = 0;
  for (auto& each : arena.operations) operations += each.load_relaxed();
  for (unsigned id = 0; id < kProcesses; ++id) {
    ASSERT_EQ(kill(child[id], SIGKILL), 0);
    ASSERT_EQ(waitpid(child[id], nullptr, 0), child[id]);
    bury(id);
  }
  EXPECT_EQ(arena.double_handouts.load_relaxed(), 0U);
  // What is left are blocks in flight, claimed and not noted: at most one a death, each of at most eight smallest
  // blocks.
  tree.repair_all();
  std::size_t lost = 0;
  std::vector<Node> left;
  for (Node n = 1; n <= last_of(kLevels - 1); ++n)
    if (tree.block_at(offset_of(tree.settings(), n)) == n) left.push_back(n);
  for (Node n : left) {
    lost += bytes_of(tree.settings(), n);
    EXPECT_TRUE(tree.give(n));
  }
  // Claims under a claim come to light when it is gone.
  for (Node n = 1; n <= last_of(kLevels - 1); ++n)
    if (tree.give(n)) lost += bytes_of(tree.settings(), n);
  tree.repair_all();
  EXPECT_LE(left.size(), static_cast<std::size_t>(rounds) + kProcesses);
  std::printf("  %d deaths: %zu claims of the dead, %zu bytes\n", rounds + static_cast<int>(kProcesses), left.size(),
              lost);
  constexpr char kSubject[] = "processes on one tree, killed (SIGKILL)";
  test::proof("stops and kills", kSubject, "kills", static_cast<u64>(rounds) + kProcesses);
  test::proof("stops and kills", kSubject, "operations beside stopped ones", operations);
  test::proof("stops and kills", kSubject, "bytes lost until they were freed for the dead", lost);
  expect_all_free(tree);
}

TEST_P(Killed, AtAnyInstructionTheOthersGoOn) {
  const char* given = std::getenv("FREEWAY_TEST_SEED");
  const u64 seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  const char* asked = std::getenv("FREEWAY_KILL_ROUNDS");
  const int rounds = asked ? std::atoi(asked) : 40;
  std::printf("FREEWAY_TEST_SEED=%llu, %d rounds\n", static_cast<unsigned long long>(seed), rounds);
  std::mt19937_64 random(seed);
  // What the dead had claimed adds up, so that a tree would be full of it at last.
  for (int done = 0; done < rounds && !HasFailure(); done += 40) kill_processes(random, std::min(rounds - done, 40));
}

}  // namespace
}  // namespace freeway::nbbs
