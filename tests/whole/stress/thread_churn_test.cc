// SPDX-License-Identifier: MIT
//
// thread_churn_test.cc: 20,000 short threads. Threads come and go without the allocator keeping anything for them:
// memory after 20,000 is what it was after 2,000.
#include <freeway/freeway.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <pthread.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "stress_test.h"
#include "tests/support/engine_under_test.h"

namespace freeway::test {
namespace {

constexpr unsigned kWave = 8;  // alive at once
constexpr unsigned kWarmUp = 2000;
constexpr unsigned kThreads = 20000;

ParcelStack left_behind;  // freed by whichever thread comes next

// Frees at thread exit, after the thread's function has returned.
struct ThreadsOwn {
  Parcel* parcel = make_parcel(300, 1);
  std::string text = std::string(2000, 'x');
  ~ThreadsOwn() {
    free(parcel);
    free(malloc(5000));
  }
};
thread_local ThreadsOwn threads_own;

void live_briefly(uint64_t seed) {
  Random random(seed);
  threads_own.text[0] = 'y';
  Parcel* own = nullptr;
  for (int i = 0; i < 30; ++i) {
    Parcel* parcel = make_parcel(program_like_size(random), uint32_t(i));
    if (parcel == nullptr) abort();
    if (random.chance(50)) {
      parcel->next = own;
      own = parcel;
    } else {
      left_behind.post(parcel);
    }
  }
  if (free_chain(left_behind.take_all()) < 0 || free_chain(own) < 0) abort();
}

// The system gives huge pages to whoever does not say no.
bool huge_pages_everywhere() {
  FILE* file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file == nullptr) return false;
  char text[64] = {};
  const bool read = fgets(text, sizeof text, file) != nullptr;
  fclose(file);
  return read && strstr(text, "[always]") != nullptr;
}

TEST(ThreadChurn, MemoryAfterTwentyThousandThreadsIsThatAfterTwoThousand) {
  const uint64_t seed = test_seed();
  size_t after_warm_up = 0;
  for (unsigned started = 0; started < kThreads; started += kWave) {
    if (started == kWarmUp) after_warm_up = anonymous_rss();
    std::vector<std::thread> wave;
    for (unsigned i = 0; i < kWave; ++i) wave.emplace_back(live_briefly, seed + started + i);
    for (std::thread& thread : wave) thread.join();
  }
  const size_t at_end = anonymous_rss();
  printf("RSS after %u threads: %zu KiB, after %u: %zu KiB\n", kWarmUp, after_warm_up / kKiB, kThreads, at_end / kKiB);
  // A kilobyte lost with each thread would be 17 MiB. Where the system's default is huge pages
  // (transparent_hugepage/enabled: always), each place that a late thread is the first to touch may cost 2 MiB, but for
  // what the library keeps to small pages: the flagship's whole heap here. The bound is the same for it whatever the
  // setting is. Without rseq the flagship has spare slabs, as many as threads meet in it, and the last ones may come
  // into use late.
  const char* rseq = getenv("FREEWAY_RSEQ");
  const bool claimed = on_flagship() && rseq != nullptr && strcmp(rseq, "0") == 0;
  // HMalloc's heaps fill up to 4 MiB a class, slowly: papers/hmalloc/tests/lives_test.cc.
  if (on_flagship() || (!on_engine("hmalloc") && !huge_pages_everywhere())) {
    EXPECT_LE(at_end, after_warm_up + after_warm_up / 4 + (claimed ? 8 : 2) * kMiB);
  }
  EXPECT_GE(free_chain(left_behind.take_all()), 0);
}

// A thread's only call of all comes after every exit hook, as the C library's own frees do: the destructor of a key in
// the last round there is. Nothing may be made for such a thread that only an exit hook would give back.
pthread_key_t last_key;
struct Last {
  void* block;
  int rounds_left;
};

void free_in_the_last_round(void* value) {
  auto* last = static_cast<Last*>(value);
  if (--last->rounds_left > 0) pthread_setspecific(last_key, last);
  else free(last->block);
}

TEST(ThreadChurn, AThreadThatOnlyFreesWhenItIsNearlyGoneLeavesNothing) {
  ASSERT_EQ(pthread_key_create(&last_key, free_in_the_last_round), 0);
  size_t metadata_after_warm_up = 0;
  freeway_stats_t stats;
  for (unsigned i = 0; i < kThreads; ++i) {
    if (i == kWarmUp) {
      freeway_stats(&stats, sizeof stats);
      metadata_after_warm_up = stats.metadata;
    }
    Last last = {malloc(100), PTHREAD_DESTRUCTOR_ITERATIONS};
    pthread_t thread;
    auto begin = [](void* mine) -> void* { return pthread_setspecific(last_key, mine), nullptr; };
    ASSERT_EQ(pthread_create(&thread, nullptr, begin, &last), 0);
    pthread_join(thread, nullptr);
    ASSERT_EQ(last.rounds_left, 0);
  }
  freeway_stats(&stats, sizeof stats);
  EXPECT_LE(stats.metadata, metadata_after_warm_up + kMiB) << "50 bytes a thread";
  pthread_key_delete(last_key);
}

// Destructors of pthread keys run late, several rounds of them, and may allocate and free.
pthread_key_t key;
std::atomic<int> destructor_calls{0};

void allocate_again(void* value) {
  ++destructor_calls;
  auto* parcel = static_cast<Parcel*>(value);
  if (!is_intact(parcel)) abort();
  const uint32_t round = parcel->stamp;
  free(parcel);
  if (round < 3) pthread_setspecific(key, make_parcel(1000, round + 1));
}

TEST(ThreadChurn, KeyDestructorsMayAllocateAndFree) {
  ASSERT_EQ(pthread_key_create(&key, allocate_again), 0);
  for (int i = 0; i < 200; ++i) {
    std::thread([] {
      threads_own.text[0] = 'z';
      pthread_setspecific(key, make_parcel(100, 1));
    }).join();
  }
  EXPECT_EQ(destructor_calls, 3 * 200);
  pthread_key_delete(key);
}

}  // namespace
}  // namespace freeway::test
