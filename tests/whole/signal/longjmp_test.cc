// SPDX-License-Identifier: MIT
//
// siglongjmp out of the allocator: a signal from another process arrives at a random instruction of malloc, free or
// realloc, and the handler never goes back there. Thousands of times. Promised: nobody waits for the call that
// vanished, nothing is corrupted, and the loss is at most what each call had in hand: its own blocks and one
// superblock, span or slab.
#include <pthread.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>

#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/losable_table.h"
#include "tests/whole/signal/support/loss_account.h"
#include "tests/whole/signal/support/signal_sender.h"
#include "tests/whole/signal/support/steady_state.h"

namespace {
using namespace freeway_test;

constexpr size_t kThreads = 4;
constexpr size_t kTable = 500;

// All that must survive a jump lives here, not in locals.
struct Worker : LosableTable<kTable> {
  pthread_t thread;
  size_t index = 0;
  sigjmp_buf landing;
  volatile uint64_t jumps = 0;
  volatile uint64_t bytes_dropped = 0;
  volatile uint64_t operations = 0;
};

Worker workers[kThreads];
constinit thread_local Worker* volatile me = nullptr;
SignalSender sender;
std::atomic<bool> stopping{false};
SizeMix mix = kAllSizes;

void handler(int) {
  Worker* worker = me;
  if (worker == nullptr || inside_allocator == 0) return;
  inside_allocator = 0;  // first, so that a signal that interrupts this handler returns
  siglongjmp(worker->landing, 1);
}

void* work(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  // The mask is not saved: the handler is installed with SA_NODEFER.
  if (sigsetjmp(worker->landing, 0) != 0) {
    worker->jumps = worker->jumps + 1;
    worker->bytes_dropped = worker->bytes_dropped + worker->in_hand;
  } else {
    me = worker;
    sender.set_target(worker->index, raw_gettid());
  }
  while (!stopping.load(std::memory_order_relaxed)) {
    worker->operate(mix);
    worker->operations = worker->operations + 1;
  }
  sender.set_target(worker->index, 0);
  me = nullptr;
  worker->empty();
  return nullptr;
}

uint64_t jumps_so_far() {
  uint64_t jumps = 0;
  for (const Worker& worker : workers) jumps += worker.jumps;
  return jumps;
}

// `superblock` is the size of the largest superblock that blocks of the mix come from.
void jump_out(const Options& options, const SizeMix& sizes, size_t superblock) {
  mix = sizes;
  // What the heap needs anyway: one round of the same work without jumps, measured when all of it is freed.
  for (size_t i = 0; i < kThreads; i++) workers[i].random = Random(options.seed + i);
  for (int i = 0; i < 100'000; i++) workers[i % kThreads].operate(mix);
  for (Worker& worker : workers) worker.empty();
  LossOfMany loss;
  loss.start();

  sender.start(options.seed, {SIGUSR1}, 50, 400);
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_NODEFER | SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  for (size_t i = 0; i < kThreads; i++) {
    workers[i].index = i;
    require(::pthread_create(&workers[i].thread, nullptr, work, &workers[i]) == 0, "no thread");
  }
  const uint64_t enough = 200;
  for (Deadline deadline(options.seconds); !deadline.passed() || jumps_so_far() < enough;) {
    const timespec pause{0, 20'000'000};
    ::nanosleep(&pause, nullptr);
  }
  stopping = true;
  for (Worker& worker : workers) ::pthread_join(worker.thread, nullptr);
  sender.stop();

  uint64_t dropped = 0, operations = 0;
  for (const Worker& worker : workers) {
    dropped += worker.bytes_dropped;
    operations += worker.operations;
  }
  const uint64_t jumps = jumps_so_far();
  Line().count(operations, "operations").count(jumps, "jumps").write_to(1);
  loss.check(jumps, dropped, superblock + kFrameBytes, superblock);
  // And the heap works.
  Random random(options.seed);
  for (int i = 0; i < 20'000; i++) release_block(allocate_block(random, mix));
  require_steady_state(options.seed);
}

void jump_out_of_small_sizes(const Options& options) { jump_out(options, kSmallOnly, kFrameBytes); }
void jump_out_of_all_sizes(const Options& options) { jump_out(options, kAllSizes, kLargestSuperblock); }

}  // namespace

int main(int argc, char** argv) {
  return run_cases(
      argc, argv,
      {{"jump_out_of_small_sizes", jump_out_of_small_sizes}, {"jump_out_of_all_sizes", jump_out_of_all_sizes}});
}
