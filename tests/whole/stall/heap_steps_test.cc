// SPDX-License-Identifier: MIT
//
// One heap of the program's at each step of its calls: there a handler, another thread on another CPU, or the child of
// a fork uses the same heap, or the thread ends for ever. A block is in one pair of hands; once all are freed the heap
// holds nothing; and what a thread that ended took with it is no later heap's.
//
// The library is the product's, compiled with stepping/os/machine.h.
#include <freeway/heap.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/proof.h"
#include "tests/whole/stall/signpost.h"

namespace {
using freeway_test::Signpost;

// A step is named as it is, and by its file.
using Step = std::pair<std::string, std::string>;

struct Stop {
  const Step* step = nullptr;
  unsigned skips = 0;  // passes over it before
  std::function<void()> act;
};
thread_local Stop* stop = nullptr;
std::atomic<unsigned> reached{0};
thread_local bool in_call = false;  // of a heap's: only there anything happens
thread_local std::set<Step>* seen = nullptr;

struct Call {
  Call() { in_call = true; }
  ~Call() { in_call = false; }
};

std::string from_src(const char* file) {
  const char* const src = std::strstr(file, "src/");
  return src == nullptr ? file : src + 4;
}

}  // namespace

extern "C" void stepping_at(const char* name, const char* file, int) {
  if (!in_call || (seen == nullptr && stop == nullptr)) return;
  in_call = false;  // what is done here is no part of the call
  if (seen != nullptr) seen->insert({name, from_src(file)});
  if (stop != nullptr && name == stop->step->first && from_src(file) == stop->step->second) {
    if (stop->skips-- == 0) {
      ++reached;
      std::exchange(stop, nullptr)->act();
    }
  }
  in_call = true;
}

namespace {

struct Block {
  unsigned char* at;
  size_t size;
  unsigned char stamp;
};

constexpr size_t kMostInHand = size_t{1} << 20;  // the longest superblock
constexpr size_t kSizes[] = {24, 2048, 2048, 4000, 200, 9000, 40000};

class HeapSteps : public testing::Test {
 protected:
  HeapSteps() { begin(); }
  ~HeapSteps() override { freeway_heap_destroy(heap_); }
  void begin() { heap_ = freeway_heap_new(nullptr, 0); }

  Block take(size_t turn, size_t size) {
    const auto stamp = static_cast<unsigned char>(1 + turn % 251);
    void* block;
    {
      Call call;
      block = turn % 11 == 10 ? freeway_heap_aligned_alloc(heap_, 64, size) : freeway_heap_malloc(heap_, size);
    }
    if (block == nullptr) throw std::bad_alloc();
    std::memset(block, stamp, size);
    return {static_cast<unsigned char*>(block), size, stamp};
  }
  static bool is_whole(const Block& block) {
    return block.at[0] == block.stamp && std::memcmp(block.at, block.at + 1, block.size - 1) == 0 &&
           malloc_usable_size(block.at) >= block.size;
  }
  void release(const Block& block) {
    is_sound_ &= is_whole(block);
    Call call;
    std::free(block.at);
  }
  void trim() {
    Call call;
    freeway_heap_trim(heap_);
  }
  // So many that magazines, strips and superblocks come and go; some stay.
  void work(size_t blocks) {
    std::vector<Block> mine;
    for (size_t i = 0; i < blocks; ++i, ++turn_) mine.push_back(take(turn_, kSizes[turn_ % std::size(kSizes)]));
    std::vector<Block> small;
    for (size_t i = 0; i < 6 * blocks; ++i) small.push_back(take(turn_++, 64));
    for (const Block& each : small) release(each);
    for (size_t i = 0; i < blocks; i += 2) release(mine[i]);
    trim();
    for (size_t i = 1; i < blocks; i += 2) i % 4 == 1 ? release(mine[i]) : kept_.push_back(mine[i]);
  }
  void release_kept() {
    for (const Block& each : std::exchange(kept_, {})) release(each);
  }
  freeway_heap_stats_t stats() {
    freeway_heap_stats_t found;
    EXPECT_EQ(freeway_heap_stats(heap_, &found, sizeof(found)), 0);
    return found;
  }
  static size_t of_all_heaps() {
    freeway_stats_t stats;
    freeway_stats(&stats, sizeof(stats));
    return stats.large;
  }
  // Nobody else uses the heap.
  bool holds_nothing() {
    release_kept();
    trim();
    return is_sound_ && stats().held == 0 && stats().live_blocks == 0;
  }
  void destroy_and_begin() {
    kept_.clear();
    Call call;
    EXPECT_EQ(freeway_heap_destroy(heap_), 0);
    begin();
  }

  // Calls f(stop) for each step that the work passes, at several of its passes.
  template <class F> void at_each(F&& f) {
    std::set<Step> steps;
    seen = &steps;
    work(100);
    work(100);
    destroy_and_begin();
    seen = nullptr;
    reached = 0;
    ASSERT_GT(steps.size(), 15u) << "is this the library for this test?";
    for (const Step& step : steps)
      for (const unsigned skips : {0u, 1u, 2u, 17u}) {
        SCOPED_TRACE(step.second + ": " + step.first + " " + std::to_string(skips));
        destroy_and_begin();
        Stop here{&step, skips, {}};
        f(here);
        stop = nullptr;
        if (HasFailure()) return;
      }
    EXPECT_GT(reached, 2 * steps.size());
    freeway::test::proof("steps of heaps' calls", testing::UnitTest::GetInstance()->current_test_info()->name(),
                         "stops", reached);
  }

  freeway_heap_t heap_;
  std::vector<Block> kept_;
  size_t turn_ = 0;
  bool is_sound_ = true;
};

// A thread that runs f up to the stop, which then does what it says, and goes on if that returns.
class Visitor {
 public:
  Visitor(Stop& at, std::function<void()> f) : at_(at), f_(std::move(f)) {
    pthread_create(&thread_, nullptr, run, this);
  }
  void* join() { return pthread_join(thread_, nullptr), nullptr; }

 private:
  static void* run(void* argument) {
    auto& self = *static_cast<Visitor*>(argument);
    stop = &self.at_;
    self.f_();
    stop = nullptr;
    return nullptr;
  }
  Stop& at_;
  std::function<void()> f_;
  pthread_t thread_ = {};
};

TEST_F(HeapSteps, AHandlerUsesTheSame) {
  at_each([&](Stop& at) {
    at.act = [&] { work(30); };
    stop = &at;
    work(60);
    work(60);
    stop = nullptr;
    EXPECT_TRUE(holds_nothing()) << stats().held;
  });
}

// The thread goes on elsewhere, while another one has used the CPU where it was.
TEST_F(HeapSteps, AThreadMovesAndAnotherUsesWhatItHad) {
  cpu_set_t all;
  sched_getaffinity(0, sizeof(all), &all);
  std::vector<size_t> cpus;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU";
  const auto go_to = [&](size_t cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[cpu], &one);
    sched_setaffinity(0, sizeof(one), &one);
  };
  at_each([&](Stop& at) {
    at.act = [&] {
      std::thread other([&] { go_to(0), work(30), go_to(1), work(10); });
      other.join();
      go_to(1);
    };
    go_to(0);
    stop = &at;
    work(60);
    work(60);
    stop = nullptr;
    EXPECT_TRUE(holds_nothing()) << stats().held;
  });
  sched_setaffinity(0, sizeof(all), &all);
}

// A thread stops there, the process forks, and both use the heap; in the child the thread is not.
TEST_F(HeapSteps, AChildOfAForkHasTheHeap) {
  at_each([&](Stop& at) {
    Signpost state, gate;
    at.act = [&] {
      state.set(1);
      gate.wait_while(0);
    };
    std::vector<Block> before;
    before.swap(kept_);
    Visitor visitor(at, [&] {
      work(60);
      work(60);
      state.set(state.get() == 1 ? 2 : 3);
    });
    state.wait_while(0);
    if (state.get() == 1) {
      const pid_t child = fork();
      if (child == 0) {
        turn_ += 1000;
        work(40);
        const bool is_sound = is_sound_ && freeway_heap_destroy(heap_) == 0;
        kept_.clear();
        begin();
        work(40);
        _exit(is_sound && holds_nothing() ? 0 : 1);
      }
      int status = 0;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
      gate.set(1);
    }
    visitor.join();
    EXPECT_TRUE(holds_nothing()) << stats().held;
  });
}

// What it had in hand is lost until the heap is destroyed; then one run of frames at most, unless it ended as it
// destroyed the heap: then what that had. The next heap in its place has nothing of that.
TEST_F(HeapSteps, AThreadEndsForEver) {
  at_each([&](Stop& at) {
    const size_t before = of_all_heaps();
    std::atomic<size_t> had{kMostInHand};
    Signpost state;
    at.act = [&] {
      state.set(1);
      syscall(SYS_exit, 0);
    };
    Visitor visitor(at, [&] {
      work(60);
      const size_t held = stats().held;
      had = held + kMostInHand;
      destroy_and_begin();
      had = kMostInHand;
      work(60);
      state.set(2);
    });
    state.wait_while(0);
    if (state.get() == 2) visitor.join();
    kept_.clear();
    if (freeway_heap_t fresh = freeway_heap_new(nullptr, 0)) {
      std::swap(heap_, fresh);
      work(40);
      EXPECT_TRUE(holds_nothing()) << stats().held;
      freeway_heap_destroy(fresh);
      EXPECT_EQ(freeway_heap_destroy(fresh), EINVAL);
    }
    work(40);
    EXPECT_TRUE(holds_nothing()) << stats().held;
    destroy_and_begin();
    EXPECT_LE(of_all_heaps(), before + had);
  });
}

}  // namespace
