// SPDX-License-Identifier: MIT
//
// limit_test.cc: freeway_set_limit and FREEWAY_LIMIT: what the hard limit refuses each function says in its own way, it
// is never passed, whoever asks, and what is freed can be had again; above the soft limit nothing is kept.
#include <freeway/freeway.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "abi_test.h"
#include "fill_up.h"
#include "scenario.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr size_t kLimit = 64 * kMiB;

freeway_stats_t stats() {
  freeway_stats_t now;
  freeway_stats(&now, sizeof now);
  return now;
}

// What is charged is what there is, to the frame. No thread is inside the allocator, and none has vanished.
void require_exact_charge() {
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0, "an error in the audit");
  require(audit.frames_stranded == 0, "stranded frames");
  const size_t there =
      audit.frames_small + audit.frames_large + audit.frames_huge + audit.frames_dirty + audit.frames_tables;
  if (audit.frames_charged != there) dprintf(2, "charged %zu, there %zu\n", audit.frames_charged, there);
  require(audit.frames_charged == there, "what is charged is not what there is");
  require(stats().held == there * 64 * kKiB, "statistics tell something else");
}

void expect_succeeds(const char* scenario, std::initializer_list<const char*> options = {}, long argument = 0) {
  const Outcome outcome = run_scenario(scenario, argument, options);
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << " " << outcome.out << outcome.err;
}

// Blocks of all sizes until none can be had.
void exhaust(Link*& chain) {
  for (size_t size = 4 * kMiB; size >= 2 * sizeof(Link); size /= 2)
    for (const size_t each : {size * 2 - size / 8, size * 2 - size / 4, size + size / 2, size + size / 4, size})
      fill_up(chain, each);
}

FREEWAY_SCENARIO(EachFunctionAtTheLimit) {
  Link* chain = nullptr;
  const size_t before = anonymous_rss();
  exhaust(chain);
  require(stats().held <= kLimit && stats().held > kLimit - kLimit / 8, "held");
  require(anonymous_rss() < before + kLimit + 4 * kMiB, "more memory than the limit");
  for (const size_t size :
       {size_t{32}, size_t{512}, size_t{3000}, size_t{32768}, size_t{100000}, 10 * kMiB, 2 * kLargestLarge}) {
    const uint64_t refusals = stats().limit_refusals;
    errno = 0;
    require(hide(malloc(size)) == nullptr && errno == ENOMEM, "malloc");
    require(stats().limit_refusals > refusals, "the refusal was not counted");
    errno = 0;
    require(hide(calloc(1, size)) == nullptr && errno == ENOMEM, "calloc");
    errno = 0;
    require(hide(realloc(nullptr, size)) == nullptr && errno == ENOMEM, "realloc of null");
    errno = 0;
    require(hide(aligned_alloc(64, size)) == nullptr && errno == ENOMEM, "aligned_alloc");
    errno = 0;
    require(hide(memalign(4096, size)) == nullptr && errno == ENOMEM, "memalign");
    void* result = &chain;
    require(posix_memalign(&result, 64, size) == ENOMEM && result == &chain, "posix_memalign");
    require(hide(::operator new(size, std::nothrow)) == nullptr, "nothrow new");
    void* blocks[4];
    errno = 0;
    require(freeway_malloc_batch(size, 4, blocks) == 0 && errno == ENOMEM, "malloc_batch");
    bool thrown = false;
    try {
      hide(::operator new(size));
    } catch (const std::bad_alloc&) { thrown = true; }
    require(thrown, "new");
  }
  Link* kept = chain;
  const size_t kept_size = kept->size;
  require(hide(realloc(kept, 20 * kMiB)) == nullptr && errno == ENOMEM, "realloc");
  require(chain == kept && kept->size == kept_size, "realloc changed its block");
  chain = kept->next;
  free(kept);
  void* again = hide(malloc(kept_size));
  require(again != nullptr, "what was freed cannot be had again");
  free(again);
  free_all(chain);
  require_exact_charge();
  require(freeway_set_limit(0, 0) == 0, "set_limit");
  require_everything_works();
  require_sound_heap();
}

TEST(Limit, EachFunctionSaysSoInItsOwnWayAndNothingIsLost) {
  expect_succeeds("EachFunctionAtTheLimit", {"FREEWAY_LIMIT=,64m"});
}

FREEWAY_SCENARIO(FreedMemoryServesAll) {
  Link* chain = nullptr;
  size_t least = SIZE_MAX;
  for (int round = 0; round < 6; ++round)
    for (const size_t size : {size_t{64}, size_t{3000}, size_t{32768}, size_t{100000}, size_t{3000000}, 40 * kMiB}) {
      const size_t bytes = fill_up(chain, size) * size;
      require(stats().held <= kLimit, "above the limit");
      free_all(chain);
      least = bytes < least ? bytes : least;
    }
  require(least >= kLimit / 2, "memory was lost from round to round");
  require_exact_charge();
}

TEST(Limit, FreedMemoryServesOtherSizes) { expect_succeeds("FreedMemoryServesAll", {"FREEWAY_LIMIT=,64m"}); }

// A huge block, a run that is lifted, and growing in small steps: up to the limit, and never beyond.
FREEWAY_SCENARIO(GrowsUpToTheLimit) {
  require(freeway_set_limit(0, 600 * kMiB) == 0, "set_limit");
  void* block = hide(malloc(kMiB));
  size_t size = kMiB;
  for (;;) {
    fill_probes(block, size, 1);
    void* grown = hide(realloc(block, size + size / 3));
    if (grown == nullptr) break;
    require(holds_probes(grown, size, 1), "contents");
    block = grown;
    size += size / 3;
    require(stats().held <= 600 * kMiB, "above the limit");
  }
  require(size > 300 * kMiB, "it cannot grow");
  require(holds_probes(block, size, 1), "a refused realloc changed its block");
  require_exact_charge();
  block = hide(realloc(block, 10 * kMiB));
  require(block != nullptr && stats().held < 30 * kMiB, "what a shrunk block leaves is still held");
  free(block);
  require_exact_charge();
}

TEST(Limit, ABlockGrowsUpToItAndNoFurther) { expect_succeeds("GrowsUpToTheLimit"); }

FREEWAY_SCENARIO(ManyThreads) {
  constexpr unsigned kThreads = 8;
  constexpr size_t kSlots = 400;
  static std::atomic<size_t> refused, granted;
  static std::atomic<unsigned> running{kThreads}, filled;
  const uint64_t seed = test_seed();
  struct Block {
    void* address;
    size_t size;
  };
  static Block all_slots[kThreads][kSlots];
  static std::atomic<bool> go;  // what threads are made of is had by then
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([t, seed] {
      while (!go) std::this_thread::yield();
      Block(&slots)[kSlots] = all_slots[t];
      Random random(seed + t);
      for (int i = 0; i < 20000; ++i) {
        Block& slot = slots[random.below(kSlots)];
        if (slot.address != nullptr) {
          require(holds(slot.address, slot.size < 64 ? slot.size : 64, t), "contents");
          free(slot.address);
          slot.address = nullptr;
          continue;
        }
        slot.size = 16 + random.below(random.chance(2) ? 600 * kKiB : 30 * kKiB);
        slot.address = hide(malloc(slot.size));
        (slot.address == nullptr ? refused : granted)++;
        if (slot.address != nullptr) fill(slot.address, slot.size < 64 ? slot.size : 64, t);
      }
      // Only what all of them hold together is more than the limit.
      ++filled;
      while (filled != kThreads) std::this_thread::yield();
      for (Block& slot : slots) free(slot.address);
      --running;
    });
  go = true;
  while (running != 0) {
    require(stats().held <= 24 * kMiB, "above the limit");
    if (argument != 0) usleep(200);
  }
  for (std::thread& each : threads) each.join();
  require(refused > 0 && granted > refused / 100, "no thread ever came to the limit");
  require_exact_charge();
  require_sound_heap();
}

TEST(Limit, ManyThreadsNeverPassIt) { expect_succeeds("ManyThreads", {"FREEWAY_LIMIT=,24m"}); }
TEST(Limit, ManyThreadsNeverPassTheHardOneAboveTheSoftOne) {
  expect_succeeds("ManyThreads", {"FREEWAY_LIMIT=12m,24m"}, 1);
}

// From each call on, nobody charges beyond that limit.
FREEWAY_SCENARIO(SetWhileThreadsRun) {
  static std::atomic<bool> done;
  static void* all_blocks[4][300];
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      void*(&blocks)[300] = all_blocks[t];
      Random random(t + 1);
      while (!done) {
        void*& block = blocks[random.below(300)];
        free(block);
        block = hide(malloc(16 + random.below(200 * kKiB)));
      }
      for (void* block : blocks) free(block);
    });
  Random random(test_seed());
  for (int i = 0; i < 300; ++i) {
    const size_t hard = (random.below(4) == 0 ? 0 : 4 + random.below(60)) * kMiB;
    require(freeway_set_limit(hard / 2, hard) == 0, "set_limit");
    const size_t then = stats().held, most = hard == 0 ? SIZE_MAX : hard > then ? hard : then;
    for (int look = 0; look < 50; ++look) require(stats().held <= most, "above a limit that was set");
  }
  done = true;
  for (std::thread& each : threads) each.join();
  require_exact_charge();
}

TEST(Limit, HoldsFromTheCallThatSetsIt) { expect_succeeds("SetWhileThreadsRun"); }

FREEWAY_SCENARIO(InHandlers) {
  static std::atomic<unsigned> calls;
  struct sigaction action = {};
  action.sa_handler = [](int) {
    const int saved = errno;
    const unsigned call = calls++;
    void* block = malloc(1000 + call % 50 * 4000);
    if (call % 3 == 0) freeway_set_limit((call % 5) * kMiB, (8 + call % 5) * kMiB);
    free(block);
    errno = saved;
  };
  sigaction(SIGALRM, &action, nullptr);
  const itimerval timer = {{0, 300}, {0, 300}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  Link* chain = nullptr;
  for (int round = 0; calls < 400; ++round) {
    fill_up(chain, 100 + size_t(round) % 60 * 5000);
    free_all(chain);
  }
  const itimerval none = {};
  setitimer(ITIMER_REAL, &none, nullptr);
  require_exact_charge();
  require_sound_heap();
}

TEST(Limit, InHandlersThatInterruptAllocation) { expect_succeeds("InHandlers"); }

FREEWAY_SCENARIO(AfterAFork) {
  Link* chain = nullptr;
  fill_up(chain, 100000);
  for (int i = 0; i < 2; ++i) {
    const pid_t child = i == 0 ? fork() : _Fork();
    if (child == 0) {
      if (hide(malloc(100000)) != nullptr) _exit(1);
      if (stats().hard_limit != kLimit) _exit(2);
      free_all(chain);
      const size_t again = fill_up(chain, 30000);
      _exit(stats().held <= kLimit && again * 30000 > kLimit / 2 ? 0 : 3);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child && status == 0, "the child of a fork has another limit");
  }
  free_all(chain);
  require_exact_charge();
}

TEST(Limit, IsInheritedByAForkedChild) { expect_succeeds("AfterAFork", {"FREEWAY_LIMIT=,64m"}); }

FREEWAY_SCENARIO(AboveTheSoftOne) {
  Link* chain = nullptr;
  for (int i = 0; i < 1200; ++i) {
    auto* block = static_cast<Link*>(hide(malloc(100000)));
    require(block != nullptr, "the soft limit refused memory");
    block->next = chain;
    block->size = 100000;
    chain = block;
  }
  require(stats().held > 100 * kMiB, "held");
  require(stats().limit_pressures > 0, "caches were not taken apart");
  while (chain != nullptr) {
    Link* next = chain->next;
    free(chain);
    chain = next;
    const freeway_stats_t now = stats();
    require(now.held <= kLimit || now.dirty == 0, "free memory is kept above the soft limit");
  }
  require(stats().limit_refusals == 0, "refusals");
  require_exact_charge();
}

TEST(Limit, AboveTheSoftOneNothingIsKeptAndNothingRefused) {
  expect_succeeds("AboveTheSoftOne", {"FREEWAY_LIMIT=64m"});
}

TEST(Limit, ValuesThatMeanNothingAreRefused) {
  const freeway_stats_t before = stats();
  EXPECT_EQ(freeway_set_limit(2 * kMiB, kMiB), EINVAL);
  EXPECT_EQ(freeway_set_limit(0, 1), EINVAL);
  EXPECT_EQ(freeway_set_limit(65535, kMiB), EINVAL);
  EXPECT_EQ(stats().hard_limit, before.hard_limit);
  EXPECT_EQ(stats().soft_limit, before.soft_limit);
  EXPECT_EQ(freeway_set_limit(kMiB * 1000, kMiB * 1000 + 70000), 0);
  EXPECT_EQ(stats().soft_limit, 1000 * kMiB);
  EXPECT_EQ(stats().hard_limit, 1000 * kMiB + 65536);
  EXPECT_EQ(freeway_set_limit(0, SIZE_MAX), 0) << "more than there can be: none";
  EXPECT_EQ(stats().hard_limit, 0u);
  EXPECT_EQ(freeway_set_limit(0, 0), 0);
}

FREEWAY_SCENARIO(TellsItsLimits) {
  const freeway_stats_t now = stats();
  dprintf(1, "%zu %zu\n", now.soft_limit / kMiB, now.hard_limit / kMiB);
}

TEST(Limit, TheEnvironmentSetsIt) {
  EXPECT_EQ(run_scenario("TellsItsLimits", 0, {"FREEWAY_LIMIT=900m,1g"}).out, "900 1024\n");
  EXPECT_EQ(run_scenario("TellsItsLimits", 0, {"FREEWAY_LIMIT=1073741824"}).out, "1024 0\n");
  EXPECT_EQ(run_scenario("TellsItsLimits", 0, {"FREEWAY_LIMIT=1g,900m"}).out, "0 0\n") << "not understood";
  size_t soft = 0, hard = 0;
  ASSERT_EQ(sscanf(run_scenario("TellsItsLimits", 0, {"FREEWAY_LIMIT=45%,90%"}).out.c_str(), "%zu %zu", &soft, &hard),
            2);
  EXPECT_GT(soft, 0u);
  EXPECT_NEAR(double(hard), 2 * double(soft), 2);
}

}  // namespace
}  // namespace freeway::test
