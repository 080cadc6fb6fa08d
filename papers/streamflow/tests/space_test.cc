// SPDX-License-Identifier: MIT
// space_test.cc: the paper's claims about space, with Streamflow as the process's malloc and real threads; and what
// happens at the end of threads and in handlers, where the paper is silent.
#include <dlfcn.h>
#include <freeway/freeway.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace freeway::test {
namespace {

constexpr size_t kMiB = 1 << 20;

freeway_stats_t stats_now() {
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
  return stats;
}
// Bytes in superpages: page blocks in use, cached or free.
size_t footprint() {
  const freeway_stats_t stats = stats_now();
  return stats.mapped - stats.huge - stats.dirty;
}

unsigned test_seed() {
  const char* given = getenv("FREEWAY_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(strtoul(given, nullptr, 10)) : std::random_device()();
  printf("  FREEWAY_TEST_SEED=%u\n", seed);
  return seed;
}

void expect_sound() {
  freeway_audit_t audit;
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
}

// The other tests would pass with the flagship, too.
TEST(Library, IsTheBuildUnderTest) {
  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(freeway_stats), &info), 0);
  const char* build = getenv("FREEWAY_TEST_VARIANT");
  const std::string folder = std::string("/streamflow") + (build != nullptr ? std::string("-") + build : "") + "/";
  EXPECT_NE(std::string(info.dli_fname).find(folder), std::string::npos) << info.dli_fname;
}

// consume (section 4.1): a producer allocates a block of 6000 objects for each of n consumers, which free them. The
// objects of a round are freed while the next one's are allocated.
TEST(Consume, TenTimesTheRoundsHaveTheSameFootprint) {
  constexpr int kConsumers = 3, kObjects = 6000, kRounds = 300;
  std::vector<std::vector<void*>> blocks(2 * kConsumers, std::vector<void*>(kObjects));
  std::barrier turn(kConsumers + 1);
  size_t early = 0, late = 0;
  std::vector<std::thread> consumers;
  for (int id = 0; id < kConsumers; ++id)
    consumers.emplace_back([&, id] {
      for (int round = 0; round < kRounds; ++round) {
        turn.arrive_and_wait();
        for (void* object : blocks[static_cast<size_t>(round % 2 * kConsumers + id)]) free(object);
      }
    });
  for (int round = 0; round < kRounds; ++round) {
    for (int id = 0; id < kConsumers; ++id)
      for (void*& object : blocks[static_cast<size_t>(round % 2 * kConsumers + id)]) {
        object = malloc(8);
        *static_cast<char*>(object) = 1;
      }
    turn.arrive_and_wait();
    size_t& most = round < kRounds / 10 ? early : late;
    most = std::max(most, footprint());
  }
  for (std::thread& each : consumers) each.join();
  // How far the consumers are when the producer looks is chance: two rounds may be on their way, not more.
  const size_t round_bytes = kConsumers * kObjects * 16;
  EXPECT_LE(late, early + 2 * round_bytes) << kRounds / 10 << " rounds took " << early;
}

// What lazy reclaiming costs: a producer of objects of all sizes goes through a page block of each class before it
// looks at what was freed; so much, and not more, however long it goes on.
TEST(Consume, ObjectsOfAllSizesHoldAPageBlockOfEachClassAndProducer) {
  constexpr size_t kPairs = 4, kObjects = 200000, kRing = 256;
  const unsigned seed = test_seed();
  static std::atomic<void*> rings[kPairs][kRing];
  const size_t before = footprint();
  std::atomic<size_t> most{0};
  std::vector<std::thread> threads;
  for (size_t pair = 0; pair < kPairs; ++pair) {
    threads.emplace_back([&, pair] {
      std::mt19937 random(seed + static_cast<unsigned>(pair));
      for (size_t i = 0; i < kObjects; ++i) {
        void* object = malloc(1 + random() % 2048);
        *static_cast<char*>(object) = 1;
        while (rings[pair][i % kRing].load(std::memory_order_relaxed) != nullptr) std::this_thread::yield();
        rings[pair][i % kRing].store(object, std::memory_order_release);
        if (i % 10000 == 0)
          for (size_t now = footprint(), seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {}
      }
    });
    threads.emplace_back([pair] {
      for (size_t i = 0; i < kObjects; ++i) {
        void* object;
        while ((object = rings[pair][i % kRing].exchange(nullptr, std::memory_order_acquire)) == nullptr)
          std::this_thread::yield();
        free(object);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  const size_t page_blocks = kPairs * 128 * 256 * 1024;
  EXPECT_LE(most, before + page_blocks + page_blocks / 8) << kPairs * kObjects / 1024 << " MiB went through";
}

TEST(Threads, TenThousandThatComeAndGoHaveBoundedPageBlocks) {
  std::mt19937 random(test_seed());
  std::deque<void*> left;  // what threads leave behind is freed by later ones
  size_t early = 0, late = 0;
  for (int i = 0; i < 10000; ++i) {
    std::thread([&] {
      void* mine[40];
      for (void*& each : mine) each = malloc(random() % 500);
      for (int k = 0; k < 20; ++k) left.push_back(mine[k]);
      for (int k = 20; k < 40; ++k) free(mine[k]);
      while (left.size() > 400) {
        free(left.front());
        left.pop_front();
      }
    }).join();
    if (i % 100 == 0) {
      size_t& most = i < 1000 ? early : late;
      most = std::max(most, stats_now().superblocks);
    }
  }
  for (void* each : left) free(each);
  EXPECT_LE(late, early + early / 4 + 4) << "page blocks";
  expect_sound();
}

TEST(Footprint, ShrinksWithTheProgram) {
  std::thread([] {
    const size_t before = footprint();
    for (const size_t bytes : {16, 100, 700, 2000}) {
      std::vector<void*> objects;
      objects.reserve(40 * kMiB / bytes);
      for (size_t i = 0; i < 40 * kMiB / bytes; ++i) objects.push_back(malloc(bytes));
      EXPECT_GE(footprint(), 40 * kMiB);
      for (void* object : objects) free(object);
      // Of each size of page blocks one may wait in the thread's cache, and keep a superpage of 2 MiB.
      EXPECT_LE(footprint(), before + 8 * kMiB) << bytes;
    }
  }).join();
}

TEST(Threads, WhatAThreadLeftFullIsAdoptedAndUsedAgain) {
  constexpr size_t kBytes = 1000, kObjects = 20000;
  static void* objects[kObjects];
  std::thread([] {
    for (void*& object : objects) object = malloc(kBytes);
  }).join();
  const size_t before = stats_now().superblocks;
  std::thread([] {
    for (size_t i = 0; i < kObjects; i += 2) free(objects[i]);  // adopts nearly all of them
    for (size_t i = 0; i < kObjects; i += 2) objects[i] = malloc(kBytes);
  }).join();
  EXPECT_LE(stats_now().superblocks, before + 4);
  for (void* object : objects) free(object);
  expect_sound();
}

// --- After the exit hook ---------------------------------------------------------------------------------------------

pthread_key_t late_key;
void* kept_by_main[200];

// Runs in any order with Streamflow's own hook, and again after it.
void late_work(void* rounds) {
  for (int i = 0; i < 100; ++i) {
    void* mine = malloc(50);
    memset(mine, 1, 50);
    free(mine);
    if (void*& theirs = kept_by_main[i + 100 * (reinterpret_cast<uintptr_t>(rounds) & 1)]) {
      free(theirs);
      theirs = nullptr;
    }
  }
  const uintptr_t left = reinterpret_cast<uintptr_t>(rounds) - 1;
  if (left > 0) pthread_setspecific(late_key, reinterpret_cast<void*>(left));
}

TEST(Threads, MayGoOnAllocatingAndFreeingAfterTheirHeapIsGone) {
  ASSERT_EQ(pthread_key_create(&late_key, late_work), 0);
  for (int i = 0; i < 200; ++i) {
    for (void*& each : kept_by_main) each = malloc(50);
    std::thread([] {
      free(malloc(10));
      pthread_setspecific(late_key, reinterpret_cast<void*>(3));
    }).join();
    for (void* each : kept_by_main) ASSERT_EQ(each, nullptr);
  }
  pthread_key_delete(late_key);
  expect_sound();
}

// --- Who does not come back ------------------------------------------------------------------------------------------

TEST(Threads, OneThatVanishesTakesItsHeapAndNobodyWaits) {
  static void* theirs[1000];
  for (int i = 0; i < 20; ++i) {
    pthread_t thread;
    std::thread watcher([&] {
      ASSERT_EQ(pthread_create(
                    &thread, nullptr,
                    [](void*) -> void* {
                      for (void*& each : theirs) each = malloc(64);
                      syscall(SYS_exit, 0);
                      return nullptr;
                    },
                    nullptr),
                0);
      pthread_join(thread, nullptr);
    });
    watcher.join();
    for (void* each : theirs) free(each);  // remotely, for ever
    void* mine = malloc(64);
    ASSERT_NE(mine, nullptr);
    free(mine);
  }
}

sigjmp_buf jump_target;
void jump(int) { siglongjmp(jump_target, 1); }

// A call that is jumped out of leaves the thread without a heap: it gets large blocks, and frees remotely.
TEST(Handlers, ThatJumpOutOfACallLeaveAThreadThatStillWorks) {
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
  std::thread([alarm] {
    struct sigaction action = {};
    action.sa_handler = jump;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGALRM, &action, nullptr);
    pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
    static int i;  // not in a register that a jump would bring back
    for (i = 0; i < 300; ++i) {
      if (sigsetjmp(jump_target, 1) == 0) {
        const itimerval soon = {{0, 0}, {0, 50 + i % 97}};
        setitimer(ITIMER_REAL, &soon, nullptr);
        for (;;) {
          void* volatile blocks[64];
          for (auto& block : blocks) block = malloc(48);
          for (auto& block : blocks) free(block);
        }
      }
    }
    signal(SIGALRM, SIG_IGN);
    void* blocks[100];
    for (void*& block : blocks) {
      block = malloc(48);
      ASSERT_NE(block, nullptr);
      memset(block, 7, 48);
    }
    for (void* block : blocks) free(block);
  }).join();
  void* mine = malloc(48);
  ASSERT_NE(mine, nullptr);
  free(mine);
}

// Statistics walk page blocks that belong to others, and which come and go: they must survive that, and say nothing.
TEST(Statistics, BesideOtherThreadsAreSafeAndSilent) {
  FILE* said = tmpfile();
  ASSERT_NE(said, nullptr);
  const int standard_error = dup(2);
  dup2(fileno(said), 2);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  const unsigned seed = test_seed();
  for (unsigned id = 0; id < 3; ++id)
    threads.emplace_back([&, id] {
      std::mt19937 random(seed + id);
      std::vector<void*> held(2000);
      while (!stop) {
        for (void*& each : held) {
          free(each);
          each = malloc(random() % 3000);
        }
        for (void*& each : held) {
          free(each);
          each = nullptr;
        }
      }
    });
  size_t most = 0;
  for (int i = 0; i < 1000; ++i) most = std::max(most, stats_now().live_blocks);
  stop = true;
  for (std::thread& each : threads) each.join();
  dup2(standard_error, 2);
  close(standard_error);
  EXPECT_EQ(lseek(fileno(said), 0, SEEK_END), 0);
  EXPECT_LE(most, 1000000u);
  fclose(said);
}

TEST(Fork, TheChildGoesOnWithTheHeapItHas) {
  std::vector<void*> objects;
  for (int i = 0; i < 5000; ++i) objects.push_back(malloc(64));
  void* of_others[500];
  std::barrier ready(2), done(2);
  std::thread other([&] {
    for (void*& each : of_others) each = malloc(64);
    ready.arrive_and_wait();
    done.arrive_and_wait();
  });
  ready.arrive_and_wait();
  const pid_t child = fork();
  if (child == 0) {
    for (void* each : of_others) free(each);  // its owner is not here: lost, but nothing hangs
    for (void* each : objects) free(each);
    for (int i = 0; i < 10000; ++i)
      if (malloc(64) == nullptr) _exit(1);
    _exit(0);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  done.arrive_and_wait();
  other.join();
  for (void* each : of_others) free(each);
  for (void* each : objects) free(each);
}

}  // namespace
}  // namespace freeway::test
