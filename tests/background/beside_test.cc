// SPDX-License-Identifier: MIT
//
// beside_test.cc: a program's blocks beside a helper that works all the time: it trims, again and again, is held where
// it stands by a debugger, or ends there.
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/background/helper_process.h"

namespace freeway::test {
namespace {

// Blocks of all sizes that come and go; each holds a pattern of its own.
class Blocks {
 public:
  explicit Blocks(uint64_t seed) : random_(seed) {}
  void change(size_t times) {
    for (; times > 0; --times) {
      Block& block = blocks_[random_() % std::size(blocks_)];
      if (block.at != nullptr) {
        check(block);
        free(block.at);
        block.at = nullptr;
      } else {
        block.size = random_() % 64 == 0 ? 33'000 + random_() % 100'000 : 8 + random_() % 3000;
        block.mark = static_cast<unsigned char>(random_());
        memset(block.at = static_cast<unsigned char*>(hide(malloc(block.size))), block.mark, block.size);
      }
    }
  }
  ~Blocks() {
    for (Block& block : blocks_)
      if (block.at != nullptr) check(block), free(block.at);
  }

 private:
  struct Block {
    unsigned char* at = nullptr;
    size_t size = 0;
    unsigned char mark = 0;
  };
  static void check(const Block& block) {
    for (size_t i = 0; i < block.size; i += 61) require(block.at[i] == block.mark, "a block is as it was left");
  }
  std::minstd_rand random_;
  Block blocks_[8000];
};

uint64_t seed() {
  const char* given = getenv("FREEWAY_TEST_SEED");
  const uint64_t chosen =
      given != nullptr ? strtoull(given, nullptr, 0) : static_cast<uint64_t>(time(nullptr)) * 31 + getpid();
  dprintf(1, "FREEWAY_TEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
  return chosen;
}

// A child that does something to this process's helper, again and again, until it is killed.
class Tormentor {
 public:
  using Torment = bool(pid_t parent, std::minstd_rand&);  // whether it was done
  explicit Tormentor(Torment* torment) {
    require(pipe2(pipe_, O_NONBLOCK) == 0, "a pipe");
    const uint64_t start = seed();
    const pid_t parent = getpid();
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(pipe_[0]);
      std::minstd_rand random(start);
      uint64_t times = 0;
      for (;;)
        if (torment(parent, random) && ++times % 16 == 0 && write(pipe_[1], "", 1) != 1) _exit(1);
    }
    close(pipe_[1]);
    prctl(PR_SET_PTRACER, child_);
  }
  // Until it did it so often, calls meanwhile() again and again.
  void wait_for(size_t times, const std::function<void()>& meanwhile) {
    char some[64];
    for (size_t done = 0; done < times;) {
      meanwhile();
      const ssize_t got = read(pipe_[0], some, sizeof some);
      require(got > 0 || (got < 0 && errno == EAGAIN), "a tormentor that lives");
      if (got > 0) done += static_cast<size_t>(got) * 16;
    }
  }
  ~Tormentor() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

 private:
  int pipe_[2] = {};
  pid_t child_ = 0;
};

bool trim(pid_t process, std::minstd_rand& random) {
  usleep(random() % 500);
  const pid_t helper = helper_of(process);
  return helper != 0 && order_trim(process, helper, 0);
}

size_t live_blocks() {
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
  return stats.live_blocks;
}

// Blocks that go back to few words of few superblocks, in an order that keeps many of these partly used.
void churn(std::minstd_rand& random) {
  constexpr size_t kSize = 1008;
  static void* blocks[3000];
  for (void*& block : blocks)
    if (block == nullptr) memset(block = hide(malloc(kSize)), 7, kSize);
  for (int times = 0; times < 20; ++times) {
    for (size_t i = random() % 4; i < std::size(blocks); i += 2 + random() % 3) {
      require(blocks[i] == nullptr || static_cast<char*>(blocks[i])[kSize - 1] == 7, "a block is as it was left");
      free(blocks[i]);
      blocks[i] = nullptr;
    }
    for (size_t i = random() % 2; i < std::size(blocks); i += 2)
      if (blocks[i] == nullptr) memset(blocks[i] = hide(malloc(kSize)), 7, kSize);
  }
  for (void*& block : blocks) {
    free(block);
    block = nullptr;
  }
}

// One thread, whose bitmap words need no atomic instructions while it is alone.
FREEWAY_SCENARIO(OneThread) {
  begin_helper();
  const size_t before = live_blocks();
  {
    Tormentor trims(trim);
    std::minstd_rand random(static_cast<uint64_t>(argument));
    trims.wait_for(8000, [&] { churn(random); });
  }
  require(comes_true([before] { return live_blocks() == before; }), "each bit that was set is set");
  require_sound();
}

FREEWAY_SCENARIO(FourThreads) {
  begin_helper();
  std::atomic<bool> stop{false};
  std::thread others[3];
  for (std::thread& other : others)
    other = std::thread([&stop, which = &other - others, argument] {
      Blocks blocks(static_cast<uint64_t>(argument + which));
      while (!stop) blocks.change(1000);
    });
  {
    Blocks blocks(static_cast<uint64_t>(argument));
    Tormentor trims(trim);
    trims.wait_for(2000, [&] { blocks.change(3000); });
  }
  stop = true;
  for (std::thread& other : others) other.join();
  require_sound();
}

bool may_trace() {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const bool may = ptrace(PTRACE_SEIZE, child, nullptr, nullptr) == 0;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return may;
}

// Stops the helper somewhere in its work; 0 if there is none, or it may not be.
pid_t stop_helper(pid_t process, std::minstd_rand& random) {
  const pid_t helper = helper_of(process);
  if (helper == 0) return 0;
  order_trim(process, helper, 0);
  if (ptrace(PTRACE_SEIZE, helper, nullptr, nullptr) != 0) return 0;
  for (unsigned i = random() % 200'000; i > 0; --i) hide(i);
  int status = 0;
  if (ptrace(PTRACE_INTERRUPT, helper, nullptr, nullptr) == 0 && waitpid(helper, &status, __WALL) == helper &&
      WIFSTOPPED(status))
    return helper;
  return 0;
}

bool hold(pid_t process, std::minstd_rand& random) {
  const pid_t helper = stop_helper(process, random);
  usleep(random() % 3000);
  return helper != 0 && ptrace(PTRACE_DETACH, helper, nullptr, nullptr) == 0;
}

[[noreturn]] void vanish() {
  for (;;) syscall(SYS_exit, 0);
}

// The helper goes on in vanish(), which is as far up in this process as in its child.
bool end_there(pid_t process, std::minstd_rand& random) {
  const pid_t helper = stop_helper(process, random);
  if (helper == 0) return false;
  user_regs_struct registers;
  iovec place = {&registers, sizeof registers};
  ptrace(PTRACE_GETREGSET, helper, NT_PRSTATUS, &place);
#if defined(__x86_64__)
  registers.rip = reinterpret_cast<uint64_t>(&vanish);
  registers.rsp = (registers.rsp - 256) / 16 * 16 - 8;
  registers.orig_rax = ~uint64_t{0};  // no system call is to be made again
#else
  registers.pc = reinterpret_cast<uint64_t>(&vanish);
  registers.sp = (registers.sp - 256) / 16 * 16;
#endif
  ptrace(PTRACE_SETREGSET, helper, NT_PRSTATUS, &place);
  ptrace(PTRACE_DETACH, helper, nullptr, nullptr);
  while (helper_of(process) == helper) usleep(100);
  return true;
}

FREEWAY_SCENARIO(HeldHelper) {
  if (!may_trace()) _exit(77);
  begin_helper();
  {
    Blocks blocks(static_cast<uint64_t>(argument));
    Tormentor holds(hold);
    holds.wait_for(800, [&] { blocks.change(3000); });
  }
  require_sound();
}

FREEWAY_SCENARIO(HelperEndsAnywhere) {
  if (!may_trace()) _exit(77);
  begin_helper();
  {
    Blocks blocks(static_cast<uint64_t>(argument));
    Tormentor ends(end_there);
    ends.wait_for(160, [&] { blocks.change(3000); });
  }
  burst(16 * kMiB);
  require(comes_true([] { return burst(kMiB), helper_of(getpid()) != 0; }), "a helper again");
  require_sound();
}

void expect_success(const char* scenario, long argument) {
  const Outcome outcome = run_scenario(scenario, argument, {"FREEWAY_BACKGROUND=1"});
  if (outcome.exit_status == 77) GTEST_SKIP() << "no ptrace here";
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << "\n"
                                   << outcome.out << outcome.err;
}

TEST(Beside, ATrimmingHelperTakesNothingFromAProgramOfOneThread) {
  expect_success("OneThread", static_cast<long>(seed()));
}
TEST(Beside, ATrimmingHelperTakesNothingFromSeveralThreads) {
  expect_success("FourThreads", static_cast<long>(seed()));
}
TEST(Beside, NobodyWaitsForAHelperThatIsHeld) { expect_success("HeldHelper", static_cast<long>(seed())); }
TEST(Beside, AHelperMayEndAnywhereAndAnotherOneIsMade) {
  expect_success("HelperEndsAnywhere", static_cast<long>(seed()));
}

}  // namespace
}  // namespace freeway::test
