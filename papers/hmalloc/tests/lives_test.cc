// SPDX-License-Identifier: MIT
//
// Threads begin and end under libfreeway-hmalloc.so: heaps are inherited, destructors that run after the heap was given
// away still free and allocate, handlers that interrupt a heap operation get through, a forked child goes on.
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "freeway/freeway.h"
#include "routes.h"

namespace freeway::hmalloc {
namespace {

freeway_stats_t stats() {
  freeway_stats_t s;
  freeway_stats(&s, sizeof s);
  return s;
}
size_t audit_errors() {
  freeway_audit_t audit;
  return freeway_audit(&audit, sizeof audit);
}

TEST(Lives, TwoThousandThreadsShareTheHeapsOfEight) {
  auto wave = [] {
    std::barrier all_there(8);  // each wave needs eight heaps
    std::thread threads[8];
    for (auto& thread : threads)
      thread = std::thread([&] {
        void* blocks[200];
        free(malloc(1));
        all_there.arrive_and_wait();
        for (void*& block : blocks) block = malloc(100);
        for (void* block : blocks) free(block);
        free(malloc_local(100));
      });
    for (auto& thread : threads) thread.join();
  };
  for (int i = 0; i < 20; ++i) wave();
  const freeway_stats_t before = stats();
  for (int i = 0; i < 250; ++i) wave();
  const freeway_stats_t after = stats();
  EXPECT_EQ(after.metadata, before.metadata) << "no heap was made";
  EXPECT_EQ(after.live_blocks, before.live_blocks);
  // Each of the eight heaps may need a second superblock of the class; 50 MiB went through the threads.
  EXPECT_LE(after.mapped, before.mapped + (size_t{8} << 22));
  EXPECT_EQ(audit_errors(), 0u);
}

// Destructors of keys, in the order of their making, four rounds of them: the heap is given away in one of these.
pthread_key_t key;
std::atomic<int> rounds{0};
struct Keepsake {
  void *local, *shared;
  int left;
};
void destroy(void* argument) {
  auto* keepsake = static_cast<Keepsake*>(argument);
  ++rounds;
  free(keepsake->local);
  free(keepsake->shared);
  keepsake->local = nullptr;
  void* fresh = malloc(300);
  memset(fresh, 1, 300);
  keepsake->shared = fresh;
  if (--keepsake->left > 0) pthread_setspecific(key, keepsake);
  else free(keepsake->shared), free(keepsake);
}

TEST(Lives, DestructorsOfKeysFreeAndAllocateInEveryRound) {
  ASSERT_EQ(pthread_key_create(&key, destroy), 0);
  for (int left = 1; left <= 4; ++left) {
    rounds = 0;
    std::thread([&] {
      auto* keepsake = static_cast<Keepsake*>(malloc(sizeof(Keepsake)));
      *keepsake = {malloc_local(64), malloc(64), left};
      pthread_setspecific(key, keepsake);
    }).join();
    EXPECT_EQ(rounds, left);
  }
  EXPECT_EQ(audit_errors(), 0u);
  pthread_key_delete(key);
}

// A handler allocates both kinds and frees both kinds, while what it interrupted does the same.
struct HandlersPart {
  static constexpr int kSlots = 16;
  std::atomic<void*> to_free[kSlots];  // blocks of the main part, for the handler to free
  std::atomic<void*> made[kSlots];     // the handler's, for the main part to free
  std::atomic<long> calls;
};
HandlersPart part;

void handler(int) {
  ++part.calls;
  for (auto& slot : part.to_free) free(slot.exchange(nullptr));
  for (int i = 0; i < 2; ++i) {
    void* block = i == 0 ? malloc_local(50) : malloc(500);
    if (block == nullptr) continue;
    memset(block, 0xee, 50);
    void* old = part.made[(part.calls + i) % HandlersPart::kSlots].exchange(block);
    free(old);
  }
}

TEST(Lives, HandlersThatInterruptTheHeapGetThrough) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const size_t before = stats().live_blocks;
  itimerval every{{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &every, nullptr);
  unsigned turn = 0;
  for (long done = 0; part.calls < 2000 || done < 200000; ++done) {
    void* local = malloc_local(16 + turn % 100);
    void* shared = malloc(16 + turn % 1000);
    memset(local, 1, 16);
    memset(shared, 2, 16);
    void* old = part.to_free[++turn % HandlersPart::kSlots].exchange(local);
    free(old);
    old = part.to_free[++turn % HandlersPart::kSlots].exchange(shared);
    free(old);
    free(part.made[turn % HandlersPart::kSlots].exchange(nullptr));
  }
  itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  signal(SIGALRM, SIG_DFL);
  for (auto& slot : part.to_free) free(slot.exchange(nullptr));
  for (auto& slot : part.made) free(slot.exchange(nullptr));
  malloc_trim(0);  // makes up for late frees
  EXPECT_EQ(stats().live_blocks, before);
  EXPECT_EQ(audit_errors(), 0u);
}

// Statistics go through all superblocks while their owners fill them and give them back.
TEST(Lives, StatisticsBesideOtherThreadsDisturbNobody) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (unsigned round = 0; !stop; ++round) {
        void* blocks[300];
        for (unsigned i = 0; i < 300; ++i)
          blocks[i] = i % 5 == 0 ? malloc_local(100) : malloc(16 + (i * 37 + round) % 9000);
        for (void* block : blocks) free(block);
        if (round % 16 == static_cast<unsigned>(t)) malloc_trim(0);
      }
    });
  for (int i = 0; i < 300; ++i) EXPECT_LE(stats().live_blocks, 100000u);
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(audit_errors(), 0u);
}

// A thread whose handler jumps out of malloc for good. Whether it was inside the heap shows in its next block: a
// mapping.
thread_local sigjmp_buf out;
thread_local volatile sig_atomic_t armed;
void jump_out(int) {
  if (armed) siglongjmp(out, 1);
}
bool is_a_mapping(void* block) { return malloc_usable_size(block) >= 65536; }

bool lose_the_heap() {
  static thread_local int tries;  // no local of a function that is jumped out of
  while (++tries < 100000) {
    if (sigsetjmp(out, 1) == 0) {
      armed = 1;
      for (;;) {
        void* volatile block = malloc(16);
        free(block);
      }
    }
    armed = 0;
    void* block = malloc(16);
    const bool lost = is_a_mapping(block);
    free(block);
    if (lost) return true;
  }
  return false;
}

TEST(Lives, AThreadThatJumpsOutOfTheHeapLosesItAndNobodyWaits) {
  signal(SIGUSR1, jump_out);
  std::atomic<int> done{0};
  void* blocks[100];
  std::thread victim([&] {
    for (void*& block : blocks) memset(block = malloc(100), 'v', 100);
    void* local = malloc_local(100);
    EXPECT_TRUE(lose_the_heap());
    done = 1;
    for (int i = 0; i < 1000; ++i) {
      void* block = malloc(static_cast<size_t>(i));
      EXPECT_TRUE(is_a_mapping(block));
      memset(block, 'w', static_cast<size_t>(i));
      free(block);
    }
    free(local);
    for (int i = 0; i < 50; ++i) free(blocks[i]);
  });
  while (done == 0) {
    pthread_kill(victim.native_handle(), SIGUSR1);
    usleep(50);
  }
  victim.join();
  for (int i = 0; i < 20; ++i)
    std::thread([&] {
      void* more[500];
      for (void*& block : more) {
        block = malloc(100);
        EXPECT_FALSE(is_a_mapping(block));
        memset(block, 'x', 100);
      }
      for (void* block : more) free(block);
    }).join();
  for (int i = 50; i < 100; ++i) {
    for (int at = 0; at < 100; ++at) ASSERT_EQ(static_cast<char*>(blocks[i])[at], 'v');
    free(blocks[i]);
  }
  EXPECT_EQ(audit_errors(), 0u);
  signal(SIGUSR1, SIG_DFL);
}

TEST(Lives, TheChildOfAForkFreesBlocksOfThreadsThatStayedBehind) {
  std::atomic<bool> stop{false};
  std::atomic<void*> blocks[64] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = static_cast<unsigned>(t); !stop; ++i) free(blocks[i % 64].exchange(malloc(40 + i % 200)));
    });
  for (int round = 0; round < 30; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (auto& slot : blocks) free(slot.exchange(nullptr));
      for (int i = 0; i < 1000; ++i) free(malloc(static_cast<size_t>(i)));
      void* kept[200];
      for (void*& block : kept) block = malloc(100);
      for (void* block : kept) free(block);
      _exit(audit_errors() == 0 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "round " << round;
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  for (auto& slot : blocks) free(slot.load());
}

}  // namespace
}  // namespace freeway::hmalloc
