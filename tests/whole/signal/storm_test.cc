// SPDX-License-Identifier: MIT
//
// Signal storms: eight threads allocate, resize and free all the time while another process sends them thousands of
// signals a second, whose handlers do the same. Threads and handlers pass blocks to each other through a mailbox, so a
// handler frees what the call it interrupted was about to see, and the other way round. With a lock anywhere in the
// allocator the first handler that interrupts its owner waits for ever.
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <utility>

#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/mailbox.h"
#include "tests/whole/signal/support/signal_sender.h"

namespace {
using namespace freeway_test;

constexpr size_t kThreads = 8;
constexpr size_t kTable = 400;        // blocks a thread keeps
constexpr size_t kHandlerTable = 16;  // blocks its handlers keep from one signal to the next
constexpr int kSignals[] = {SIGUSR1, SIGUSR2, SIGURG, SIGIO};

// One thread's part. The handlers of a thread use only what is marked theirs, each slot by exchange.
struct Worker {
  pthread_t thread;
  size_t index = 0;
  uint64_t seed = 0;
  std::atomic<void*> handler_table[kHandlerTable] = {};  // the handlers'
  Random handler_random{0};                              // the handlers'
  volatile int depth = 0;                                // handlers active
  volatile uint64_t handlers_run = 0;
  volatile uint64_t interrupted_allocator = 0;
  volatile int deepest = 0;
  uint64_t operations = 0;
};

Worker workers[kThreads];
constinit thread_local Worker* volatile me = nullptr;
Mailbox<64> mailbox;
SignalSender sender;
std::atomic<bool> stopping{false};
const SizeMix* mix = &kAllSizes;
int handler_operations = 6;

// What a handler does: a few operations over its own small table and the mailbox.
void handler(int) {
  const int saved_errno = errno;
  Worker* worker = me;
  if (worker == nullptr) return;
  worker->depth = worker->depth + 1;
  if (worker->depth > worker->deepest) worker->deepest = worker->depth;
  worker->handlers_run = worker->handlers_run + 1;
  if (inside_allocator > 0) worker->interrupted_allocator = worker->interrupted_allocator + 1;

  Random& random = worker->handler_random;
  for (int i = 0; i < handler_operations; i++) {
    std::atomic<void*>& slot = worker->handler_table[random.below(kHandlerTable)];
    void* block = slot.exchange(nullptr);
    if (block == nullptr) block = mailbox.take(random);
    if (block == nullptr) {
      block = allocate_block(random, *mix);
    } else if (random.one_in(4)) {
      block = resize_block(random, block, random_size(random, *mix));
    } else if (random.one_in(2)) {
      release_block(block);
      continue;
    }
    if (random.one_in(2) && mailbox.put(block, random)) continue;
    if (void* displaced = slot.exchange(block)) release_block(displaced);  // a nested handler filled it meanwhile
  }
  worker->depth = worker->depth - 1;
  errno = saved_errno;
}

void* work(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  Random random(worker->seed);
  void* table[kTable] = {};
  me = worker;
  sender.set_target(worker->index, raw_gettid());
  while (!stopping.load(std::memory_order_relaxed)) {
    void*& slot = table[random.below(kTable)];
    if (slot == nullptr) {
      slot = mailbox.take(random);
      if (slot == nullptr) slot = allocate_block(random, *mix);
    } else if (random.one_in(5)) {
      slot = resize_block(random, slot, random_size(random, *mix));
    } else if (random.one_in(4) && mailbox.put(slot, random)) {
      slot = nullptr;
    } else {
      release_block(slot);
      slot = nullptr;
    }
    // Now and then a phase of blocks of one size that all go again: magazines overflow, superblocks become empty.
    if (random.one_in(2000)) {
      const size_t size = 16 + 16 * random.below(12);
      for (void*& block : table) {
        if (block != nullptr) release_block(block);
        block = allocate_block(random, size);
      }
      for (void*& block : table) release_block(std::exchange(block, nullptr));
    }
    worker->operations++;
  }
  sender.set_target(worker->index, 0);
  for (void* block : table)
    if (block != nullptr) release_block(block);
  return nullptr;
}

void storm(const Options& options, std::initializer_list<int> signals, const SizeMix& sizes, bool nested) {
  mix = &sizes;
  if (nested) handler_operations = 100;          // long enough to be interrupted in their turn
  sender.start(options.seed, signals, 50, 250);  // 4 to 20 kHz; those sent to a thread that waits for a CPU merge
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // other signals of the storm are not blocked: they nest
  for (const int signal : kSignals) ::sigaction(signal, &action, nullptr);
  for (size_t i = 0; i < kThreads; i++) {
    workers[i].index = i;
    workers[i].seed = options.seed * 31 + i;
    workers[i].handler_random = Random(options.seed * 37 + i);
    require(::pthread_create(&workers[i].thread, nullptr, work, &workers[i]) == 0, "no thread");
  }

  uint64_t handlers = 0, interrupted = 0, operations = 0;
  int deepest = 0;
  // Goes on past the given time until there were enough interruptions to call it a storm; the watchdog ends it if
  // they never come.
  for (Deadline deadline(options.seconds);;) {
    const timespec pause{0, 50'000'000};
    ::nanosleep(&pause, nullptr);
    interrupted = 0;
    deepest = 0;
    for (const Worker& worker : workers) {
      interrupted += worker.interrupted_allocator;
      if (worker.deepest > deepest) deepest = worker.deepest;
    }
    if (deadline.passed() && interrupted >= 30 && (!nested || deepest >= 2)) break;
  }
  stopping = true;
  for (Worker& worker : workers) ::pthread_join(worker.thread, nullptr);
  sender.stop();

  for (Worker& worker : workers) {
    handlers += worker.handlers_run;
    operations += worker.operations;
    require(worker.operations > 0, "a thread did nothing at all", worker.index);
    for (auto& slot : worker.handler_table)
      if (void* block = slot.exchange(nullptr)) release_block(block);
  }
  mailbox.drain(release_block);
  require_clean_audit("audit after a signal storm");
  Line()
      .count(operations, "operations")
      .count(sender.sent(), "signals")
      .count(handlers, "handlers")
      .count(interrupted, "of them inside an allocator call")
      .count(static_cast<uint64_t>(deepest), "deep at most")
      .write_to(1);
}

void one_signal_all_sizes(const Options& options) { storm(options, {SIGUSR1}, kAllSizes, false); }
void one_signal_small_sizes(const Options& options) { storm(options, {SIGUSR1}, kSmallOnly, false); }
void nested_signals(const Options& options) { storm(options, {SIGUSR1, SIGUSR2, SIGURG, SIGIO}, kUpToMedium, true); }

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv,
                   {{"one_signal_all_sizes", one_signal_all_sizes},
                    {"one_signal_small_sizes", one_signal_small_sizes},
                    {"nested_signals", nested_signals}});
}
