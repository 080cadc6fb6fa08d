// SPDX-License-Identifier: MIT
//
// profile_mended_test.cc: who begins or ends a profile leaves that call for ever at each of its steps. What is half
// done is completed by the slow path's ticks: then blocks are sampled, or mallocs are as fast as before. And: at each
// step of a block's move, a block that has its old address already is followed by itself. Run with the library that
// tells of its steps (stepping/os/machine.h).
#include <freeway/heap.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "freeway/freeway.h"
#include "tests/abi/abi_test.h"
#include "tests/profile/dump_reader.h"

namespace {

sigjmp_buf way_out;
int leave_at = -1;  // which step from now on; -1: none
int act_at = -1;    // the same
std::function<void()> action;
int steps = 0;
const char* left_at = nullptr;

}  // namespace

extern "C" void stepping_at(const char* name, const char*, int) {
  ++steps;
  if (act_at >= 0 && act_at-- == 0) action();
  if (leave_at < 0 || leave_at-- != 0) return;
  left_at = name;
  siglongjmp(way_out, 1);
}

namespace freeway::test {
namespace {

constexpr uint64_t kTag = 4711, kMovedTag = 4712;

// Runs f up to that step. The step's name; "": f has come to its end.
template <class F> std::string leave(int step, F&& f) {
  left_at = "";
  if (sigsetjmp(way_out, 1) == 0) {
    leave_at = step;
    f();
  }
  leave_at = -1;
  return left_at;
}

// Mallocs that leave the fast path, hundreds of them.
void tick() {
  std::vector<void*> blocks(30000);
  for (void*& block : blocks) block = hide(malloc(100));
  for (void* block : blocks) free(block);
}

// How many of ten blocks are sampled.
uint64_t sampled() {
  const uint64_t before = take_dump().of_tag(kTag).allocated;
  void* blocks[10];
  {
    Tagged tagged(kTag);
    for (void*& block : blocks) block = hide(malloc(100));
  }
  for (void* block : blocks) free(block);
  return take_dump().of_tag(kTag).allocated - before;
}

// Steps in 1000 mallocs and frees: the fast path has none.
int steps_of_pairs() {
  const int before = steps;
  for (int i = 0; i < 1000; ++i) free(hide(malloc(100)));
  return steps - before;
}

// The first test: no process but these children has had a sample yet, so that a free need not look for one.
TEST(ProfileMended, EndedWhileABlockOfAHeapIsChosen) {
  constexpr int kNotReached = 1;
  for (int step = 0;; ++step) {
    const pid_t child = fork();
    if (child == 0) {
      const freeway_heap_t heap = freeway_heap_new(nullptr, 0);
      action = freeway_profile_stop;
      if (heap == 0 || freeway_profile_start(1) != 0) _exit(2);
      act_at = step;
      void* const block = hide(freeway_heap_malloc(heap, 4000));
      const bool has_acted = act_at < 0;
      act_at = -1;
      free(block);
      _exit(has_acted ? 0 : kNotReached);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "at step " << step;
    if (WEXITSTATUS(status) == kNotReached) break;
    EXPECT_EQ(WEXITSTATUS(status), 0) << "at step " << step;
  }
}

TEST(ProfileMended, BegunByOneWhoIsGone) {
  EXPECT_EQ(freeway_profile_start(1), 0);  // makes the tables
  freeway_profile_stop();
  std::string name;
  unsigned begun = 0;
  for (int step = 0;; ++step) {
    name = leave(step, [] { EXPECT_EQ(freeway_profile_start(1), 0); });
    tick();
    const bool has_begun = name.empty() || name.rfind("profile.", 0) == 0;
    EXPECT_EQ(sampled(), has_begun ? 10u : 0u) << "left at step " << step << ": " << name;
    begun += has_begun;
    freeway_profile_stop();
    if (name.empty()) break;
  }
  EXPECT_EQ(begun, 4u) << "three steps, and the end";
}

TEST(ProfileMended, EndedByOneWhoIsGone) {
  tick();
  const int usual = steps_of_pairs();
  ASSERT_LT(usual, 100);
  unsigned ended = 0;
  for (int step = 0;; ++step) {
    EXPECT_EQ(freeway_profile_start(1), 0);
    const std::string name = leave(step, [] { freeway_profile_stop(); });
    tick();
    const bool has_ended = name.empty() || name.rfind("profile.", 0) == 0;
    EXPECT_EQ(sampled(), has_ended ? 0u : 10u) << "left at step " << step << ": " << name;
    if (has_ended) { EXPECT_LT(steps_of_pairs(), 100) << "left at step " << step << ": " << name; }
    ended += has_ended;
    freeway_profile_stop();
    if (name.empty()) break;
  }
  EXPECT_EQ(ended, 4u) << "three steps, and the end";
}

TEST(ProfileMended, MovedBlockIsNotFollowedWhereItWas) {
  constexpr size_t kBytes = size_t{8} << 20, kMore = size_t{20} << 20;
  EXPECT_EQ(freeway_profile_start(1), 0);
  unsigned same_place = 0;
  for (int step = 0;; ++step) {
    void* block;
    {
      Tagged tagged(kMovedTag);
      block = hide(malloc(kBytes));
    }
    void* const wall = hide(malloc(kBytes));  // the block cannot grow where it is
    const auto address = reinterpret_cast<uintptr_t>(block);
    // As another thread would.
    action = [&] {
      {
        Tagged tagged(kTag);
        void* other = hide(malloc(kBytes));
        same_place += reinterpret_cast<uintptr_t>(other) == address;
        free(other);
      }
      EXPECT_EQ(take_dump().of_tag(kTag).live, 0u) << "at step " << step;
    };
    act_at = step;
    block = hide(realloc(block, kMore));
    const bool has_acted = act_at < 0;
    act_at = -1;
    free(block);
    free(wall);
    EXPECT_EQ(take_dump().of_tag(kMovedTag).live, 0u) << "at step " << step;
    if (!has_acted) break;
  }
  EXPECT_GT(same_place, 0u);
  freeway_profile_stop();
}

}  // namespace
}  // namespace freeway::test
