// SPDX-License-Identifier: MIT
//
// Threads that never come back: they end by the bare exit system call from a handler that interrupted the allocator,
// or are cancelled there asynchronously. Thousands of them, while others allocate. Nobody may wait for them, nothing
// may be corrupted, and each takes with it at most what its call had in hand.
#include <pthread.h>

#include <csignal>
#include <cstdio>

#include "tests/support/proof.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/losable_table.h"
#include "tests/whole/signal/support/loss_account.h"
#include "tests/whole/signal/support/steady_state.h"

namespace {
using namespace freeway_test;

constexpr size_t kResidents = 2;  // threads that stay all the time
constexpr size_t kGuests = 4;     // threads at a time that vanish
constexpr size_t kTable = 100;

// Outlives its thread: the next life goes on with the blocks.
struct Worker : LosableTable<kTable> {
  pthread_t thread;
  std::atomic<uint64_t> operations{0};
};

Worker residents[kResidents];
Worker guests[kGuests];
constinit thread_local Worker* volatile me = nullptr;
std::atomic<bool> stopping{false};
SizeMix mix = kUpToMedium;

void operate(Worker* worker) {
  worker->operate(mix);
  worker->operations.fetch_add(1, std::memory_order_relaxed);
}

void* stay(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  while (!stopping.load(std::memory_order_relaxed)) operate(worker);
  return nullptr;
}

// Ends by the handler only. Joining it works: the kernel clears the thread's id as for any other end.
void* stay_until_hit(void* argument) {
  me = static_cast<Worker*>(argument);
  for (;;) operate(me);
}

void leaving_handler(int) {
  if (me == nullptr || inside_allocator == 0) return;
  ::syscall(SYS_exit, 0);
}

// May be cancelled at any instruction of an operation.
void* stay_until_cancelled(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  ::pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
  for (;;) operate(worker);
}

void send_signal(Worker& guest) { ::pthread_kill(guest.thread, SIGUSR1); }
void cancel(Worker& guest) { ::pthread_cancel(guest.thread); }

struct Way {
  void* (*life)(void*);
  void (*end)(Worker&);
};

// Lets all guests live once and ends each at a random moment after it did something; returns the bytes that they had
// in hand.
size_t one_generation(const Way& way, Random& random, const pthread_attr_t& attributes) {
  uint64_t before[kGuests];
  bool alive[kGuests];
  for (size_t i = 0; i < kGuests; i++) {
    before[i] = guests[i].operations.load();
    require(::pthread_create(&guests[i].thread, &attributes, way.life, &guests[i]) == 0, "no thread");
    alive[i] = true;
  }
  size_t dropped = 0;
  for (size_t left = kGuests; left > 0;) {
    const timespec pause{0, static_cast<long>(random.below(50'000))};
    ::nanosleep(&pause, nullptr);
    for (size_t i = 0; i < kGuests; i++) {
      if (!alive[i] || guests[i].operations.load() == before[i]) continue;
      if (::pthread_tryjoin_np(guests[i].thread, nullptr) != 0) {
        way.end(guests[i]);  // a signal may fall outside the allocator, where it does nothing: then once more
        continue;
      }
      alive[i] = false;
      left--;
      dropped += guests[i].in_hand;
      guests[i].in_hand = 0;
    }
  }
  return dropped;
}

void vanish(const Options& options, const Way& way, const SizeMix& sizes) {
  mix = sizes;
  Random random(options.seed);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, 128 << 10);
  uint64_t seed = options.seed;
  for (Worker& worker : guests) worker.random = Random(seed++);
  for (Worker& worker : residents) worker.random = Random(seed++);
  for (Worker& worker : guests)
    for (int i = 0; i < 20'000; i++) operate(&worker);
  for (Worker& worker : guests) worker.empty();
  LossOfMany loss;
  loss.start();

  for (Worker& worker : residents) require(::pthread_create(&worker.thread, nullptr, stay, &worker) == 0, "no thread");
  uint64_t gone = 0;
  size_t dropped = 0;
  for (Deadline deadline(options.seconds); !deadline.passed() || gone < 200; gone += kGuests)
    dropped += one_generation(way, random, attributes);
  stopping = true;
  uint64_t operations = 0;
  for (Worker& worker : residents) {
    ::pthread_join(worker.thread, nullptr);
    operations += worker.operations.load();
    worker.empty();
  }
  for (Worker& worker : guests) worker.empty();
  const char* const subject = way.end == cancel ? "threads cancelled inside a call" : "threads ended inside a call";
  freeway::test::proof("stops and kills", subject, "kills", gone);
  freeway::test::proof("stops and kills", subject, "operations of the others, beside stopped ones", operations);
  freeway::test::proof("stops and kills", subject, "audits", 2);
  loss.check(gone, dropped, kLargestSpan, kLargestSuperblock);
  for (int i = 0; i < 20'000; i++) release_block(allocate_block(random, mix));
  require_steady_state(options.seed);
}

void leave_by_the_exit_system_call(const Options& options) {
  struct sigaction action = {};
  action.sa_handler = leaving_handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  vanish(options, {stay_until_hit, send_signal}, kMostlySmall);
}

void leave_by_cancellation(const Options& options) { vanish(options, {stay_until_cancelled, cancel}, kMostlySmall); }

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv,
                   {{"leave_by_the_exit_system_call", leave_by_the_exit_system_call},
                    {"leave_by_cancellation", leave_by_cancellation}});
}
