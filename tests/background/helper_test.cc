// SPDX-License-Identifier: MIT
//
// helper_test.cc: what the helper gives back, who has one, and what it may do.
#include <freeway/heap.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/background/helper_process.h"

namespace freeway::test {
namespace {

const std::initializer_list<const char*> kOn = {"FREEWAY_BACKGROUND=1"};

FREEWAY_SCENARIO(BurstAndSilence) {
  burst(kMiB);
  const size_t before = anonymous_rss(), bytes = static_cast<size_t>(argument);
  burst(bytes);
  const size_t most = before + bytes * 3 / 100 + 2 * kMiB;
  require(comes_true([most] { return anonymous_rss() <= most; }), "the memory of the burst is back");
  require_sound();
}

TEST(Helper, WhatAProgramUsedGoesBackWhileItSleeps) {
  const Outcome outcome = run_scenario("BurstAndSilence", 256 * kMiB, kOn);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

// The bound holds whenever the helper runs: the clock is read before and behind what was given back between. Meanwhile
// the program calls neither malloc nor free, which would give back as well.
FREEWAY_SCENARIO(BurstAtARate) {
  constexpr size_t kRate = 16 * kMiB, kKept = kRate / 4 + 64 * kKiB, kPiece = 4 * kMiB;
  const auto look = [] {
    freeway_stats_t stats;
    freeway_stats(&stats, sizeof stats);
    return stats;
  };
  const auto seconds = [] {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  };
  const size_t before = anonymous_rss(), bytes = static_cast<size_t>(argument);
  burst(bytes);
  const double from = seconds();
  const freeway_stats_t first = look();  // in a slow process much of it has gone back by now, or all
  size_t left = first.dirty;
  for (int i = 0; i < kPatience && left > bytes / 50; ++i) {
    usleep(10'000);
    const freeway_stats_t later = look();
    const double most = static_cast<double>(kRate) * (seconds() - from + 0.01);
    require(static_cast<double>(later.purged - first.purged) <= most + kKept + kPiece, "more than its rate");
    left = later.dirty;
  }
  require(left <= bytes / 50, "the memory of the burst is not back");
  const size_t most = before + bytes * 3 / 100 + 2 * kMiB;
  require(comes_true([most] { return anonymous_rss() <= most; }), "it is resident all the same");
  require_sound();
}

TEST(Helper, ARateIsTheMostThatItGivesBack) {
  const Outcome outcome = run_scenario("BurstAtARate", 64 * kMiB, {"FREEWAY_BACKGROUND=16m/s"});
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

TEST(Helper, NothingOfTheKindWithoutIt) {
  const Outcome outcome = run_scenario("SilenceWithoutHelper", 64 * kMiB, {"FREEWAY_BACKGROUND=0"});
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

FREEWAY_SCENARIO(SilenceWithoutHelper) {
  const size_t before = anonymous_rss();
  burst(static_cast<size_t>(argument));
  const size_t left = anonymous_rss();
  // How much depends on how long the burst took; each purge leaves a quarter of 4 MiB.
  require(left > before + 512 * 1024, "some of the burst is left");
  usleep(1'500'000);
  require(anonymous_rss() >= left, "what was left is still there");
  require(threads_of(getpid()).size() == 1, "one thread");
}

// Every 25th block stays: no frame (of 32) is free.
FREEWAY_SCENARIO(HolesAndSilence) {
  const size_t count = 400'000, size = 2048;
  static void* blocks[count];
  for (void*& block : blocks) memset(block = hide(malloc(size)), 1, size);
  for (size_t i = 0; i < count; ++i)
    if (i % 25 != 0) free(blocks[i]);
  const size_t full = anonymous_rss();
  require(full > count * size * 9 / 10, "all is there");
  require(comes_true([full] { return anonymous_rss() < full / 3; }), "the pages of free blocks are back");
  for (size_t i = 0; i < count; i += 25) {
    require(static_cast<unsigned char*>(blocks[i])[size - 1] == 1, "what stayed is as it was");
    free(blocks[i]);
  }
  require_sound();
}

TEST(Helper, PagesUnderFreeBlocksGoBackToo) {
  const Outcome outcome = run_scenario("HolesAndSilence", 0, kOn);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

// Heaps of which nothing is live: all that they hold is in CPUs' hands.
FREEWAY_SCENARIO(HeapsAndSilence) {
  static freeway_heap_t heaps[200];
  const auto held = [] {
    freeway_heap_stats_t stats;
    size_t bytes = 0;
    for (const freeway_heap_t heap : heaps) {
      require(freeway_heap_stats(heap, &stats, sizeof stats) == 0, "statistics");
      bytes += stats.held;
    }
    return bytes;
  };
  for (freeway_heap_t& heap : heaps) {
    require((heap = freeway_heap_new(nullptr, 0)) != nullptr, "a heap");
    for (size_t size = 16; size <= 2048; size *= 2) {
      static void* blocks[40];
      for (void*& block : blocks) require((block = freeway_heap_malloc(heap, size)) != nullptr, "a block");
      for (void* block : blocks) free(block);
    }
  }
  burst(8 * kMiB);
  require(held() >= 200 * 65536, "they hold something");
  require(comes_true([held] { return held() == 0; }), "they hold nothing");
  for (const freeway_heap_t heap : heaps) require(freeway_heap_destroy(heap) == 0, "the heap is there");
  require_sound();
}

TEST(Helper, WhatCpusHaveOfHeapsGoesBack) {
  const Outcome outcome = run_scenario("HeapsAndSilence", 0, kOn);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

FREEWAY_SCENARIO(FewBlocks) {
  for (int i = 0; i < 300; ++i) burst(100'000);
  usleep(300'000);
  require(threads_of(getpid()).size() == 1, "no helper");
}

TEST(Helper, AProcessThatHasLittleHasNone) {
  const Outcome outcome = run_scenario("FewBlocks", 0, kOn);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

FREEWAY_SCENARIO(Rights) {
  const pid_t helper = begin_helper();
  require(comes_true([helper] { return status_of(getpid(), helper, "Seccomp") == "2"; }), "a filter");
  require(status_of(getpid(), helper, "NoNewPrivs") == "1", "no new privileges");
  require(status_of(getpid(), getpid(), "Seccomp") == "0", "no filter for the program");
  // All but SIGKILL, SIGSTOP, and while it waits its own.
  const uint64_t blocked = strtoull(status_of(getpid(), helper, "SigBlk").c_str(), nullptr, 16);
  require((blocked | uint64_t{1} << (kHelperSignal - 1)) == 0xfffffffffffbfeff, "all signals are blocked");
}

TEST(Helper, GivesUpAllItsRightsAndTakesNoSignals) {
  const Outcome outcome = run_scenario("Rights", 0, kOn);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

// A signal for the process, which its only thread blocks, waits for it.
FREEWAY_SCENARIO(SignalsAreThePrograms) {
  begin_helper();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  for (const int signal : {SIGTERM, SIGUSR1, SIGCHLD, SIGRTMIN, SIGRTMAX}) {
    kill(getpid(), signal);
    usleep(20'000);
    const timespec second = {10, 0};
    require(sigtimedwait(&all, nullptr, &second) == signal, "the signal that was sent");
  }
}

TEST(Helper, TakesNoSignalThatIsTheProgramsToTake) {
  const Outcome outcome = run_scenario("SignalsAreThePrograms", 0, kOn);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

FREEWAY_SCENARIO(OrderedTrim) {
  const pid_t helper = begin_helper();
  static void* blocks[4000];
  // Large blocks leave free frames.
  auto dirty = [] {
    freeway_stats_t stats;
    freeway_stats(&stats, sizeof stats);
    return stats.dirty;
  };
  for (void*& block : blocks) memset(block = hide(malloc(40'000)), 1, 40'000);
  for (void* block : blocks) free(block);
  require(dirty() > 100 * kMiB, "free frames that have memory");
  require(order_trim(getpid(), helper, 32 * kMiB), "an order");
  require(comes_true([&] { return dirty() <= 32 * kMiB; }), "all but 32 MiB are back");
  require(order_trim(getpid(), helper, 0), "an order");
  require(comes_true([&] { return dirty() == 0; }), "all is back");
}

TEST(Helper, DoesWhatItIsOrdered) {
  // Nothing goes back unasked, however long the burst takes.
  const Outcome outcome = run_scenario("OrderedTrim", 0, {"FREEWAY_BACKGROUND=1", "FREEWAY_PURGE=never"});
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

// The helper finds the second free when it empties the slab.
FREEWAY_SCENARIO(DoubleFreeThenSilence) {
  begin_helper();
  void *twice = hide(malloc(500)), *between = hide(malloc(500));
  announce(twice);
  free(twice);
  free(between);
  free(hide(twice));
  comes_true([] { return false; });
}

TEST(Helper, NamesWhatIsWrongAndEndsTheProcess) {
  const Outcome outcome = run_scenario("DoubleFreeThenSilence", 0, kOn);
  EXPECT_TRUE(outcome.aborted()) << outcome.signal << outcome.err;
  expect_report(outcome, {"double free"}, When::kBatchReturned);
}

}  // namespace
}  // namespace freeway::test
