// SPDX-License-Identifier: MIT
//
// Threads parked inside the allocator: a signal handler that interrupted malloc, free or realloc sleeps there until
// the end of the round. One thread after the other is parked until only one is left, and after each the rest must go
// on. At the end the sleepers wake up and finish the calls they were in, on a heap that has moved on.
#include <linux/futex.h>
#include <pthread.h>

#include <csignal>
#include <cstdio>

#include "tests/support/proof.h"
#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/loss_account.h"
#include "tests/whole/signal/support/mailbox.h"

namespace {
using namespace freeway_test;

constexpr size_t kThreads = 10;
constexpr size_t kTable = 200;
constexpr uint64_t kProgress = 1000;  // operations that each thread that is left must finish before the next is parked

struct Worker {
  pthread_t thread;
  Random random{0};
  std::atomic<uint64_t> operations{0};
  std::atomic<bool> parked{false};
};

Worker workers[kThreads];
uint64_t operations_in_all = 0;
constinit thread_local Worker* volatile me = nullptr;
Mailbox<64> mailbox;
std::atomic<bool> stopping{false};
std::atomic<uint32_t> gate{0};  // 0: sleepers stay; 1: they go

void parking_handler(int) {
  const int saved_errno = errno;
  Worker* worker = me;
  if (worker == nullptr || inside_allocator == 0) return;
  worker->parked.store(true);
  while (gate.load() == 0) ::syscall(SYS_futex, &gate, FUTEX_WAIT, 0, nullptr, nullptr, 0);
  worker->parked.store(false);
  errno = saved_errno;
}

void* work(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  Random& random = worker->random;
  void* table[kTable] = {};
  me = worker;
  while (!stopping.load(std::memory_order_relaxed)) {
    void*& slot = table[random.below(kTable)];
    if (slot == nullptr) {
      slot = mailbox.take(random);
      if (slot == nullptr) slot = allocate_block(random, kMostlySmall);
    } else if (random.one_in(6)) {
      slot = resize_block(random, slot, random_size(random, kMostlySmall));
    } else if (random.one_in(3) && mailbox.put(slot, random)) {
      slot = nullptr;
    } else {
      release_block(slot);
      slot = nullptr;
    }
    if (random.one_in(5000))  // a phase ends: magazines overflow, superblocks become empty
      for (void*& block : table)
        if (block != nullptr) {
          release_block(block);
          block = nullptr;
        }
    worker->operations.fetch_add(1, std::memory_order_relaxed);
  }
  me = nullptr;
  for (void* block : table)
    if (block != nullptr) release_block(block);
  return nullptr;
}

void nap() {
  const timespec pause{0, 200'000};
  ::nanosleep(&pause, nullptr);
}

void park(Worker& worker, Random& random) {
  while (!worker.parked.load()) {
    ::pthread_kill(worker.thread, SIGUSR1);
    const timespec pause{0, static_cast<long>(random.below(300'000))};
    ::nanosleep(&pause, nullptr);
  }
}

void wait_for_progress_of_the_rest() {
  uint64_t before[kThreads];
  for (size_t i = 0; i < kThreads; i++) before[i] = workers[i].operations.load();
  for (size_t i = 0; i < kThreads; i++)
    while (!workers[i].parked.load() && workers[i].operations.load() < before[i] + kProgress) nap();
}

void one_round(uint64_t seed) {
  Random random(seed);
  stopping = false;
  gate = 0;
  for (size_t i = 0; i < kThreads; i++) {
    workers[i].random = Random(seed * 31 + i);
    workers[i].operations = 0;
    require(::pthread_create(&workers[i].thread, nullptr, work, &workers[i]) == 0, "no thread");
  }
  wait_for_progress_of_the_rest();
  size_t order[kThreads];
  for (size_t i = 0; i < kThreads; i++) order[i] = i;
  for (size_t i = kThreads - 1; i > 0; i--) std::swap(order[i], order[random.below(i + 1)]);
  for (size_t i = 0; i + 1 < kThreads; i++) {
    park(workers[order[i]], random);
    wait_for_progress_of_the_rest();
    // The observer allocates too, with all the others parked or not.
    for (int n = 0; n < 200; n++) release_block(allocate_block(random, kMostlySmall));
  }
  stopping = true;
  gate = 1;
  ::syscall(SYS_futex, &gate, FUTEX_WAKE, static_cast<int>(kThreads), nullptr, nullptr, 0);
  for (Worker& worker : workers) ::pthread_join(worker.thread, nullptr);
  mailbox.drain(release_block);
  const freeway_audit_t audit = require_clean_audit("audit after parked threads went on");
  require_nothing_lost(audit);
  trim_heap();  // now superblocks become empty, and their frames and descriptors are given back
  require_nothing_lost(require_clean_audit("audit after parked threads went on, and a trim"));
  for (const Worker& worker : workers) operations_in_all += worker.operations.load();
}

void threads_parked_inside_calls(const Options& options) {
  struct sigaction action = {};
  action.sa_handler = parking_handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  uint64_t rounds = 0;
  for (Deadline deadline(options.seconds); !deadline.passed() || rounds < 2; rounds++) one_round(options.seed + rounds);
  using freeway::test::proof;
  proof("stops and kills", "threads parked by a handler, down to one that goes on", "stops", rounds * (kThreads - 1));
  proof("stops and kills", "threads parked by a handler, down to one that goes on",
        "operations of the others, beside stopped ones", operations_in_all);
  proof("stops and kills", "threads parked by a handler, down to one that goes on", "audits", 2 * rounds);
}

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, {{"threads_parked_inside_calls", threads_parked_inside_calls}});
}
