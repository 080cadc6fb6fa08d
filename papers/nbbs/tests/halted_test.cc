// SPDX-License-Identifier: MIT
//
// Processes that share a freeway_buddy (MAP_SHARED metadata and memory) and are halted from outside: SIGSTOP at any
// instruction of freeway_buddy_alloc or freeway_buddy_free, one process or all but one. The others go on allocating:
// each finishes so many operations before the halted ones may continue. Every block has its owner's number in it, which
// nobody else may change; at the end all memory is one block again.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "freeway/buddy.h"
#include "tests/support/proof.h"

namespace freeway::test {
namespace {

constexpr unsigned kProcesses = 4;
constexpr std::uint64_t kProgress = 2000;  // operations that each of the others finishes during a halt
constexpr unsigned kLevels = 13;
constexpr std::size_t kMinBlock = 64, kManaged = kMinBlock << (kLevels - 1);

struct Board {
  std::atomic<std::uint64_t> operations[kProcesses];
  std::atomic<bool> inside[kProcesses];
  std::atomic<std::uint64_t> damaged;
  std::atomic<bool> stop;
};

template <class T> T* shared(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return static_cast<T*>(memory);
}

// Allocates and frees until it is told to stop; then frees what it has.
[[noreturn]] void work(freeway_buddy_t* buddy, Board& board, unsigned id, std::uint64_t seed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a failed test leaves nobody behind
  freeway_buddy_scatter(seed);
  std::mt19937_64 random(seed);
  struct {
    std::uint64_t* block;
    std::size_t words;
    std::uint64_t mark;
  } mine[48] = {};
  const auto release = [&](auto& each) {
    for (std::size_t i = 0; i < each.words; i += 8) board.damaged += each.block[i] != each.mark;
    board.inside[id] = true;
    if (freeway_buddy_free(buddy, each.block) != 0) ++board.damaged;
    board.inside[id] = false;
    each = {};
  };
  while (!board.stop) {
    auto& each = mine[random() % std::size(mine)];
    if (each.block != nullptr) {
      release(each);
    } else {
      const std::size_t bytes = kMinBlock << random() % 6;
      board.inside[id] = true;
      auto* block = static_cast<std::uint64_t*>(freeway_buddy_alloc(buddy, bytes));
      board.inside[id] = false;
      if (block == nullptr) continue;  // full for the moment
      each = {block, bytes / sizeof(std::uint64_t), random()};
      for (std::size_t i = 0; i < each.words; i += 8) block[i] = each.mark;
    }
    board.operations[id].fetch_add(1, std::memory_order_relaxed);
  }
  for (auto& each : mine)
    if (each.block != nullptr) release(each);
  _exit(0);
}

struct Form {
  unsigned levels_per_word, flags;
};

class Halted : public testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    const freeway_buddy_options_t options{kLevels, GetParam().levels_per_word, kMinBlock, 0, GetParam().flags};
    const std::size_t bytes = freeway_buddy_metadata_size(&options);
    buddy_ = freeway_buddy_create(shared<void>(bytes), bytes, shared<void>(kManaged), &options);
    ASSERT_NE(buddy_, nullptr);
    board_ = new (shared<Board>(sizeof(Board))) Board();
    for (unsigned id = 0; id < kProcesses; ++id) {
      const std::uint64_t seed = random_();
      child_[id] = fork();
      if (child_[id] == 0) work(buddy_, *board_, id, seed);
      ASSERT_GT(child_[id], 0);
    }
  }

  // Each process that is not halted finishes some more operations; how many those did that are not among `victims`.
  std::uint64_t let_others_finish(const bool (&halted)[kProcesses], const bool (&victims)[kProcesses]) {
    std::uint64_t before[kProcesses], done = 0;
    for (unsigned id = 0; id < kProcesses; ++id) before[id] = board_->operations[id];
    for (unsigned id = 0; id < kProcesses; ++id)
      while (!halted[id] && board_->operations[id] < before[id] + kProgress) usleep(100);
    for (unsigned id = 0; id < kProcesses; ++id) done += victims[id] ? 0 : board_->operations[id] - before[id];
    return done;
  }

  void halt(unsigned id) {
    ASSERT_EQ(kill(child_[id], SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child_[id], &status, WUNTRACED), child_[id]);
    ASSERT_TRUE(WIFSTOPPED(status)) << "it ended: " << status;
  }

  static std::uint64_t asked(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  }

  const std::uint64_t seed_ = asked("FREEWAY_TEST_SEED", std::random_device{}());
  std::mt19937_64 random_{seed_};
  freeway_buddy_t* buddy_ = nullptr;
  Board* board_ = nullptr;
  pid_t child_[kProcesses] = {};
};

TEST_P(Halted, AtAnyInstructionTheOthersGoOn) {
  const std::uint64_t rounds = asked("FREEWAY_HALT_ROUNDS", 16);
  std::printf("FREEWAY_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed_));
  std::uint64_t halts = 0, inside = 0, with = 0, without = 0;
  const bool nobody[kProcesses] = {};
  for (std::uint64_t round = 0; round < rounds; ++round) {
    bool halted[kProcesses] = {};
    const unsigned first = static_cast<unsigned>(random_() % kProcesses);
    const unsigned how_many = round % 4 == 3 ? kProcesses - 1 : 1;
    for (unsigned i = 0; i < how_many; ++i) halted[(first + i) % kProcesses] = true;
    without += let_others_finish(nobody, halted);
    usleep(static_cast<useconds_t>(random_() % 500));
    for (unsigned id = 0; id < kProcesses; ++id) {
      if (!halted[id]) continue;
      halt(id);
      ++halts;
      inside += board_->inside[id];
    }
    with += let_others_finish(halted, halted);
    for (unsigned id = 0; id < kProcesses; ++id)
      if (halted[id]) { ASSERT_EQ(kill(child_[id], SIGCONT), 0); }
  }
  board_->stop = true;
  for (const pid_t child : child_) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(board_->damaged, 0u) << "a block had two owners, or was not known when it was freed";
  freeway_buddy_stats_t stats;
  ASSERT_EQ(freeway_buddy_stats(buddy_, &stats), 0);
  EXPECT_EQ(stats.used, 0u);
  EXPECT_EQ(freeway_buddy_repair(buddy_, nullptr, 0), 0);
  void* all = freeway_buddy_alloc(buddy_, kManaged);
  EXPECT_NE(all, nullptr) << "not everything is free again";
  const char* const subject = "processes on one buddy, halted (SIGSTOP)";
  proof("stops and kills", subject, "stops", halts);
  proof("stops and kills", subject, "inside a call", inside);
  proof("stops and kills", subject, "operations of the others, beside stopped ones", with);
  proof("stops and kills", subject, "operations of the same, in as many rounds with nobody stopped", without);
}

INSTANTIATE_TEST_SUITE_P(AllForms, Halted,
                         testing::Values(Form{1, 0}, Form{3, 0}, Form{4, 0}, Form{1, FREEWAY_BUDDY_UP},
                                         Form{4, FREEWAY_BUDDY_UP}));

}  // namespace
}  // namespace freeway::test
