// SPDX-License-Identifier: MIT
//
// beside_test.cc: a profile waits for nobody and is in nobody's way: in handlers, beside threads that stop in the
// middle of a sample or a dump, in children of forks, begun and ended while threads run; and a dump that cannot be
// written says why.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "tests/abi/abi_test.h"
#include "tests/profile/dump_reader.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

// Threads that allocate blocks of all sizes and free each other's, until told.
class Busy {
 public:
  explicit Busy(int count) {
    for (int t = 0; t < count; ++t) threads_.emplace_back([this, t] { run(static_cast<uint64_t>(t)); });
  }
  ~Busy() {
    over_ = true;
    for (std::thread& each : threads_) each.join();
    for (auto& slot : slots_) free(slot.exchange(nullptr));
  }
  Busy(const Busy&) = delete;
  uint64_t rounds() const { return rounds_; }
  void wait_for_rounds(uint64_t more) const {
    for (const uint64_t until = rounds_ + more; rounds_ < until;) sched_yield();
  }

 private:
  void run(uint64_t seed) {
    Random random(test_seed() + seed);
    freeway_tag(seed + 1);
    while (!over_) {
      const uint64_t dice = random.next();
      const size_t size = dice % 50 == 0 ? 40 * kKiB + dice % (200 * kKiB) : 1 + dice % 3000;
      free(slots_[dice >> 32 & 255].exchange(malloc(size)));
      ++rounds_;
    }
  }

  std::atomic<void*> slots_[256] = {};
  std::atomic<bool> over_{false};
  std::atomic<uint64_t> rounds_{0};
  std::vector<std::thread> threads_;
};

void expect_sound() {
  freeway_audit_t audit;
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
  EXPECT_EQ(audit.frames_stranded, 0u);
}

int null_fd() {
  static const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  return fd;
}

TEST(Profile, WithoutOneTheDumpIsEmptyAndWhole) {
  const Dump dump = take_dump();
  EXPECT_TRUE(dump.samples.empty());
  EXPECT_EQ(dump.sum.allocated, 0u);
  EXPECT_EQ(dump.interval, 524288u) << "readers divide by it";
  EXPECT_NE(dump.mappings.find("libfreeway"), std::string::npos);
}

TEST(Profile, StartSaysWhatIsWrong) {
  EXPECT_EQ(freeway_profile_start(0), EINVAL);
  EXPECT_EQ(freeway_profile_start(4096), 0);
  EXPECT_EQ(freeway_profile_start(4096), 0) << "it is being made";
  EXPECT_EQ(freeway_profile_start(8192), EBUSY);
  freeway_profile_stop();
  freeway_profile_stop();
}

TEST(Profile, AnotherIntervalBeginsAnew) {
  for (const size_t interval : {1000u, 2000u}) {
    EXPECT_EQ(freeway_profile_start(interval), 0);
    Tagged tagged(interval);
    for (int i = 0; i < 1000; ++i) free(hide(malloc(1000)));
    freeway_profile_stop();
  }
  const Dump dump = take_dump();
  EXPECT_EQ(dump.interval, 2000u);
  EXPECT_EQ(dump.of_tag(1000).allocated, 0u);
  EXPECT_GT(dump.of_tag(2000).allocated, 0u);
  EXPECT_EQ(freeway_profile_start(1000), 0);
  freeway_profile_stop();
  EXPECT_GT(take_dump().of_tag(1000).allocated, 0u) << "and the one of this interval goes on";
}

TEST(Profile, TagsAreTheThreadsOwn) {
  EXPECT_EQ(freeway_tag(5), 0u);
  std::thread([] { EXPECT_EQ(freeway_tag(6), 0u); }).join();
  EXPECT_EQ(freeway_tag(0), 5u);
}

TEST(Profile, DumpsSayWhyTheyCannotBeWritten) {
  EXPECT_EQ(freeway_profile_dump(-1), EBADF);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(freeway_profile_dump(full), ENOSPC);
  close(full);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(freeway_profile_dump(ends[1]), EPIPE);
  std::signal(SIGPIPE, before);
  close(ends[1]);
}

TEST(Profile, BeginsAndEndsWhileThreadsRun) {
  {
    Busy busy(3);
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(freeway_profile_start(size_t{1} << i % 13), 0);
      busy.wait_for_rounds(20);
      ASSERT_EQ(freeway_profile_dump(null_fd()), 0);
      freeway_profile_stop();
      busy.wait_for_rounds(20);
    }
  }
  expect_sound();
}

TEST(Profile, DumpsBesideThreadsAreWhole) {
  Busy busy(3);
  ASSERT_EQ(freeway_profile_start(64), 0);
  for (int i = 0; i < 50; ++i) {
    busy.wait_for_rounds(100);
    const Dump dump = take_dump();
    for (const Sample& each : dump.samples) ASSERT_LE(each.live, each.allocated);
    ASSERT_FALSE(dump.mappings.empty());
  }
  freeway_profile_stop();
}

volatile sig_atomic_t handled, handler_failed;
void allocate_and_dump(int) {
  const int saved = errno;
  void* block = malloc(static_cast<size_t>(handled) * 37 % 70000);
  if (handled % 8 == 0 && freeway_profile_dump(null_fd()) != 0) handler_failed = 1;
  if (handled % 32 == 1) freeway_profile_stop(), freeway_profile_start(64);
  free(block);
  handled = handled + 1;
  errno = saved;
}

// A timer's signals at 10 kHz, whose handler allocates, is sampled, dumps, ends and begins profiles.
TEST(Profile, InHandlersThatInterruptAnything) {
  ASSERT_EQ(freeway_profile_start(64), 0);
  struct sigaction action = {}, before;
  action.sa_handler = allocate_and_dump;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, &before);
  const itimerval often = {{0, 100}, {0, 100}}, never = {};
  setitimer(ITIMER_PROF, &often, nullptr);
  {
    Busy busy(2);
    Random random(test_seed());
    while (handled < 500) {
      void* block = malloc(random.next() % 2000);
      if (random.next() % 64 == 0) { EXPECT_EQ(freeway_profile_dump(null_fd()), 0); }
      free(block);
    }
  }
  setitimer(ITIMER_PROF, &never, nullptr);
  sigaction(SIGPROF, &before, nullptr);
  freeway_profile_stop();
  EXPECT_EQ(handler_failed, 0);
  EXPECT_EQ(parse_dump(dump_text()).interval, 64u);
  expect_sound();
}

TEST(Profile, InChildrenOfForksBesideThreads) {
  ASSERT_EQ(freeway_profile_start(64), 0);
  Busy busy(3);
  for (int i = 0; i < 150; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (size_t k = 0; k < 100; ++k) free(hide(malloc(k * 300)));
      freeway_profile_stop();
      const bool begun = freeway_profile_start(128) == 0;
      for (size_t k = 0; k < 100; ++k) free(hide(malloc(k * 300)));
      _exit(begun && freeway_profile_dump(null_fd()) == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  freeway_profile_stop();
}

// A thread that dumps into a pipe nobody reads stops in the middle of it; and one that is ended there.
TEST(Profile, BesideADumpThatNeverEnds) {
  ASSERT_EQ(freeway_profile_start(16), 0);
  {
    Busy some(2);
    some.wait_for_rounds(3000);
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_GE(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
  std::atomic<int> result{-1};
  std::thread dumper([&] { result = freeway_profile_dump(ends[1]); });
  pollfd has_text = {ends[0], POLLIN, 0};
  ASSERT_EQ(poll(&has_text, 1, -1), 1);
  {
    Busy busy(2);
    for (int i = 0; i < 20; ++i) {
      busy.wait_for_rounds(200);
      EXPECT_FALSE(take_dump().samples.empty());
      freeway_profile_stop();
      EXPECT_EQ(freeway_profile_start(16), 0);
    }
  }
  EXPECT_EQ(result, -1) << "it is still there";
  std::string text;
  char piece[4096];
  while (result == -1 || poll(&has_text, 1, 0) == 1) {
    if (poll(&has_text, 1, 10) == 1) {
      const ssize_t got = read(ends[0], piece, sizeof piece);
      if (got <= 0) break;
      text.append(piece, static_cast<size_t>(got));
    }
  }
  dumper.join();
  EXPECT_EQ(result, 0);
  EXPECT_FALSE(parse_dump(text).samples.empty()) << "and whole, when somebody reads";
  close(ends[0]), close(ends[1]);
  freeway_profile_stop();
}

}  // namespace
}  // namespace freeway::test
