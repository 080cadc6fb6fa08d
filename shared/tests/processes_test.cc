// SPDX-License-Identifier: MIT
//
// Processes that share a heap of shared/, each at an address of its own, and are killed with SIGKILL at random moments
// while the others go on, recover them, and sit down at their seats: nothing is ever lost.
//
// Every block lies in a slot (alloc_into), so that what is live is known exactly; and some are allocated and freed at
// once, of which a killed process may leave one. FREEWAY_KILLS: how many processes are killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "shared/tests/ground.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

using shared::Freed;

constexpr u32 kWorkers = 4, kSlots = 64;  // slots of each worker
constexpr u32 kParent = SharedGround::kSeats;

void fail(const char* what) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, what, strlen(what));
  _exit(1);
}

u64 some_bytes(Random& random) {
  return random.chance(3) ? random.below(300000) : random.chance(20) ? random.below(32769) : random.below(400);
}

// What a worker does until it is killed. Its slots may hold what the one before it left.
[[noreturn]] void work(SharedGround& ground, u32 worker, u64 slots, u64 seed) {
  ground.map_again();
  auto heap = ground.heap();
  Random random(seed);
  u32 seat = worker + 1;
  while (!heap.join(seat, worker)) seat = seat % (SharedGround::kSeats - 1) + 1;  // another may be cleaning up there
  bool own[kSlots] = {};                                                          // filled by this process
  for (;;) {
    const u64 n = random.below(kSlots), at = slots + 8 * (worker * kSlots + n);
    auto& slot = *ground.world().slot(at);
    if (const u64 block = slot.load_relaxed(); block != 0) {
      if (heap.usable(block) == 0) fail("what is in a slot is not live\n");
      if (own[n] && *static_cast<u64*>(ground.at(block)) != block + worker) fail("a block has two owners\n");
      own[n] = false;
      if (heap.free_from(seat, at) != Freed::kDone) fail("a block in a slot cannot be freed\n");
    } else if (const u64 made = heap.alloc_into(seat, at, some_bytes(random)); made != 0) {
      *static_cast<u64*>(ground.at(made)) = made + worker;
      own[n] = true;
    }
    if (random.chance(20)) {
      const u64 block = heap.malloc(seat, some_bytes(random));
      if (block != 0 && heap.free(seat, block) != Freed::kDone) fail("a block cannot be freed\n");
    }
    if (random.chance(1)) heap.recover_all(seat);
    if (random.below(2000) == 0) {
      heap.leave(seat);
      while (!heap.join(seat, worker)) seat = seat % (SharedGround::kSeats - 1) + 1;
    }
  }
}

u64 filled(SharedGround& ground, u64 slots) {
  u64 count = 0;
  for (u32 i = 0; i < kWorkers * kSlots; ++i) count += ground.world().slot(slots + 8 * i)->load_relaxed() != 0;
  return count;
}

void pause_for(Random& random) {
  const timespec some{0, static_cast<long>(random.below(3'000'000))};
  nanosleep(&some, nullptr);
}

TEST(SharedProcesses, NothingIsLostWhoeverIsKilled) {
  const u64 kills = number_from_environment("FREEWAY_KILLS", 60);
  const u64 seed = number_from_environment("FREEWAY_TEST_SEED", static_cast<u64>(time(nullptr)));
  printf("  FREEWAY_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  SharedGround ground(1024);
  auto heap = ground.heap();
  ASSERT_TRUE(heap.join(kParent, kParent - 1));
  const u64 slots = heap.malloc(kParent, 8 * kWorkers * kSlots);
  memset(ground.at(slots), 0, 8 * kWorkers * kSlots);
  for (u64 killed = 0; killed < kills;) {
    pid_t workers[kWorkers];
    for (u32 w = 0; w < kWorkers; ++w) {
      ground.set_alive(w);
      if ((workers[w] = fork()) == 0) work(ground, w, slots, random.next() + w);
      ASSERT_GT(workers[w], 0);
    }
    // One after the other: those that are left go on and may recover it.
    for (u32 w = 0; w < kWorkers; ++w, ++killed) {
      pause_for(random);
      int status = 0;
      kill(workers[w], SIGKILL);
      ASSERT_EQ(waitpid(workers[w], &status, 0), workers[w]);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "a worker has found a fault";
      ground.set_gone(w);
      if (random.chance(30)) heap.recover_all(kParent);
    }
    heap.recover_all(kParent);
    const shared::Audit found = heap.audit();
    ASSERT_EQ(found.lost_bytes, 0u);
    ASSERT_EQ(found.lost_frames, 0u);
    ASSERT_EQ(found.unnoticed, 0u);
    ASSERT_EQ(found.left_behind, 0u);
    const u64 known = filled(ground, slots) + 1;
    ASSERT_GE(found.live_blocks, known) << "what is in a slot is live";
    ASSERT_LE(found.live_blocks, known + killed + kWorkers)
        << "and little else: a killed worker may have had one block in hand";
    ASSERT_FALSE(HasFailure());
  }
  proof("stops and kills", "shared heap: processes, at random", "kills", kills);
}

}  // namespace
}  // namespace freeway::test
