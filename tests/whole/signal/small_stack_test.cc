// SPDX-License-Identifier: MIT
//
// Handlers on alternate stacks of 8 KiB (SIGSTKSZ), of which the kernel's own frame takes up to half. Each handler
// takes the slow paths: fresh size classes, large and huge blocks, whole batches back and forth, calloc, realloc with
// a move, malloc_trim. Below each stack lies a page that nobody may touch, and the unused part keeps a pattern, so the
// depth is known exactly and is printed.
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <csignal>
#include <cstdio>

#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/signal_sender.h"

namespace {
using namespace freeway_test;

constexpr size_t kStackBytes = 8192;
constexpr size_t kGuardBytes = 16384;
constexpr size_t kThreads = 4;
constexpr unsigned char kUnused = 0xa5;
constexpr size_t kBurst = 3000;

// A stack with a guard below it, filled with the pattern.
struct GuardedStack {
  unsigned char* low = nullptr;
  void make_and_use() {
    void* memory =
        ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "no stack");
    require(::mprotect(memory, kGuardBytes, PROT_NONE) == 0, "no guard");
    low = static_cast<unsigned char*>(memory) + kGuardBytes;
    std::memset(low, kUnused, kStackBytes);
    stack_t stack = {};
    stack.ss_sp = low;
    stack.ss_size = kStackBytes;
    require(::sigaltstack(&stack, nullptr) == 0, "sigaltstack refused");
  }
  size_t deepest_use() const {
    size_t untouched = 0;
    while (untouched < kStackBytes && low[untouched] == kUnused) untouched++;
    return kStackBytes - untouched;
  }
};

struct Worker {
  pthread_t thread;
  size_t index = 0;
  GuardedStack stack;
  Random random{0};          // the thread's
  Random handler_random{0};  // the handler's
  void* burst[kBurst];       // the handler's; not on its small stack
  volatile uint64_t handlers_run = 0;
  uint64_t operations = 0;
};

Worker workers[kThreads];
constinit thread_local Worker* volatile me = nullptr;
SignalSender sender;
std::atomic<bool> stopping{false};
volatile size_t deepest_empty_handler = 0;

// What every handler does that ends up in the allocator's slow paths.
[[gnu::noinline]] void take_slow_paths(Worker* worker) {
  Random& random = worker->handler_random;
  const size_t size = random_size(random, kUpToMedium);
  const size_t count = std::min<size_t>(kBurst, (size_t{1} << 20) / size + 2);
  for (size_t i = 0; i < count; i++) worker->burst[i] = allocate_block(random, size);  // refills, a new superblock
  for (size_t i = 0; i < count; i++) release_block(worker->burst[i]);                  // flushes, an empty superblock
  void* large = allocate_block(random, random.between(40'000, 600'000));
  large = resize_block(random, large, random.between(40'000, 900'000));
  release_block(resize_block(random, large, 64));
  if (random.one_in(20)) {
    enter_allocator();
    void* huge = ::malloc(size_t{300} << 20);  // a mapping of its own; its pages are not touched
    void* larger = ::realloc(huge, size_t{400} << 20);
    ::free(larger != nullptr ? larger : huge);
    leave_allocator();
  }
  if (random.one_in(10)) trim_heap();
}

void handler(int) {
  Worker* worker = me;
  if (worker == nullptr) return;
  take_slow_paths(worker);
  worker->handlers_run = worker->handlers_run + 1;
}

void* work(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  worker->stack.make_and_use();
  me = worker;
  sender.set_target(worker->index, raw_gettid());
  while (!stopping.load(std::memory_order_relaxed)) {
    release_block(allocate_block(worker->random, kAllSizes));
    worker->operations++;
  }
  sender.set_target(worker->index, 0);
  return nullptr;
}

void install(void (*function)(int)) {
  struct sigaction action = {};
  action.sa_handler = function;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
}

// The kernel's frame alone, to tell its share from the allocator's.
size_t measure_kernel_frame() {
  GuardedStack stack;
  stack.make_and_use();
  install([](int) {});
  ::raise(SIGUSR1);
  return stack.deepest_use();
}

// The very first calls of the process into the allocator, or nearly so, come from a handler.
void first_calls_in_a_handler(const Options& options) {
  const size_t frame = measure_kernel_frame();
  Worker* worker = &workers[0];
  worker->handler_random = Random(options.seed);
  worker->stack.make_and_use();
  me = worker;
  install(handler);
  for (int i = 0; i < 200; i++) ::raise(SIGUSR1);
  require(worker->handlers_run == 200, "handlers that did not run", worker->handlers_run);
  require_clean_audit("audit after slow paths on a small stack");
  Line()
      .count(frame, "bytes are the kernel's frame")
      .count(worker->stack.deepest_use() - frame, "bytes used beyond it")
      .write_to(1);
}

void storm_on_small_stacks(const Options& options) {
  const size_t frame = measure_kernel_frame();
  sender.start(options.seed, {SIGUSR1}, 200, 2000);
  install(handler);
  for (size_t i = 0; i < kThreads; i++) {
    workers[i].index = i;
    workers[i].random = Random(options.seed * 31 + i);
    workers[i].handler_random = Random(options.seed * 37 + i);
    require(::pthread_create(&workers[i].thread, nullptr, work, &workers[i]) == 0, "no thread");
  }
  uint64_t handlers = 0;
  for (Deadline deadline(options.seconds); !deadline.passed() || handlers < 100;) {
    const timespec pause{0, 20'000'000};
    ::nanosleep(&pause, nullptr);
    handlers = 0;
    for (const Worker& worker : workers) handlers += worker.handlers_run;
  }
  stopping = true;
  size_t deepest = 0;
  for (Worker& worker : workers) {
    ::pthread_join(worker.thread, nullptr);
    deepest = std::max(deepest, worker.stack.deepest_use());
  }
  sender.stop();
  require_clean_audit("audit after slow paths on small stacks");
  Line()
      .count(handlers, "handlers")
      .count(frame, "bytes are the kernel's frame")
      .count(deepest - frame, "bytes used beyond it")
      .write_to(1);
}

void only_if_the_frame_fits() {
  const size_t smallest = ::getauxval(AT_MINSIGSTKSZ);
  if (smallest > kStackBytes / 2) skip("the kernel's frame takes more than half of an 8 KiB stack here");
}

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv,
                   {{"first_calls_in_a_handler",
                     [](const Options& options) {
                       only_if_the_frame_fits();
                       first_calls_in_a_handler(options);
                     }},
                    {"storm_on_small_stacks", [](const Options& options) {
                       only_if_the_frame_fits();
                       storm_on_small_stacks(options);
                     }}});
}
