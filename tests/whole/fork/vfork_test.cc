// SPDX-License-Identifier: MIT
//
// A vfork child runs on its parent's memory, in its parent's thread-local storage, but on a CPU of its own choice and
// unknown to rseq: the CPU number it finds there is the one on which the parent was stopped. Here the child moves to
// another CPU than all the parent's threads and allocates and frees there, while they do so on the CPU that the stale
// number names. An allocator that believes the number has two CPUs in one CPU's data.
#include <pthread.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <vector>

#include "tests/support/cpu_affinity.h"
#include "tests/support/proof.h"
#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/signal_sender.h"

namespace {
using namespace freeway_test;

constexpr size_t kThreads = 4;
constexpr size_t kTable = 300;
constexpr size_t kShared = 2000;    // blocks that parent and vfork child pass back and forth
constexpr int kChildRounds = 5000;  // operations of one child

struct Worker {
  pthread_t thread;
  size_t index = 0;
  Random random{0};
  Random handler_random{0};
  uint64_t operations = 0;
};

Worker workers[kThreads];
constinit thread_local Worker* volatile me = nullptr;
std::atomic<bool> stopping{false};
SignalSender sender;
void* volatile shared_blocks[kShared];  // of the vforking thread and its child, which never run at once
std::atomic<pid_t> child_to_kill{0};
volatile bool child_was_here;  // set by the child: its parent sees it
int parents_cpu, childs_cpu;

void pin(int cpu) { require(stay_on(cpu), "cannot choose the CPU", static_cast<unsigned>(cpu)); }

// The first two CPUs that this process may use.
void choose_cpus() {
  const std::vector<int> usable = usable_cpus();
  if (usable.size() < 2) skip("needs two CPUs");
  parents_cpu = usable[0];
  childs_cpu = usable[1];
}

void* work(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  pin(parents_cpu);
  me = worker;
  sender.set_target(worker->index, raw_gettid());
  void* table[kTable] = {};
  while (!stopping.load(std::memory_order_relaxed)) {
    void*& slot = table[worker->random.below(kTable)];
    if (slot == nullptr) {
      slot = allocate_block(worker->random, kUpToMedium);
    } else {
      release_block(slot);
      slot = nullptr;
    }
    worker->operations++;
  }
  sender.set_target(worker->index, 0);
  for (void* block : table)
    if (block != nullptr) release_block(block);
  return nullptr;
}

// What the child does before it ends: it frees blocks of the parent's and leaves it others.
[[gnu::noinline]] void exchange_blocks(Random& random, int rounds) {
  for (int i = 0; i < rounds; i++) {
    void* volatile& slot = shared_blocks[random.below(kShared)];
    void* block = slot;
    slot = nullptr;
    if (block == nullptr) {
      slot = allocate_block(random, kUpToMedium);
    } else if (random.one_in(4)) {
      slot = resize_block(random, block, random_size(random, kUpToMedium));
    } else {
      release_block(block);
    }
  }
}

// A fork in vfork's place would copy memory that the parent expects to see changed: an announced child, whom nobody
// would kill then, would never end.
[[gnu::noinline]] pid_t vfork_a_child(Random& random, bool announce) {
  child_was_here = false;
  const pid_t child = ::vfork();
  if (child > 0 && !child_was_here) {
    ::kill(child, SIGKILL);
    require(false, "vfork is a fork here");
  }
  if (child == 0) {
    child_was_here = true;
    if (announce) child_to_kill.store(raw_getpid());
    pin(childs_cpu);
    exchange_blocks(random, announce ? 1 << 30 : kChildRounds);  // the announced one ends only when killed
    ::_exit(3);
  }
  return child;
}

void start_workers(const Options& options) {
  choose_cpus();
  for (size_t i = 0; i < kThreads; i++) {
    workers[i].index = i;
    workers[i].random = Random(options.seed * 31 + i);
    workers[i].handler_random = Random(options.seed * 37 + i);
    require(::pthread_create(&workers[i].thread, nullptr, work, &workers[i]) == 0, "no thread");
  }
}

freeway_audit_t end_workers(const char* where) {
  stopping = true;
  uint64_t operations = 0;
  for (Worker& worker : workers) {
    ::pthread_join(worker.thread, nullptr);
    operations += worker.operations;
  }
  for (void* volatile& slot : shared_blocks)
    if (void* block = slot) release_block(block);
  Line().count(operations, "operations of other threads").write_to(1);
  return require_clean_audit(where);
}

void vfork_again_and_again(const Options& options, const char* where) {
  Random random(options.seed);
  uint64_t children = 0;
  for (Deadline deadline(options.seconds); !deadline.passed() || children < 10; children++) {
    pin(parents_cpu);
    exchange_blocks(random, 500);
    const bool registered = rseq_cpu_id() >= 0;
    const pid_t child = vfork_a_child(random, false);
    require(child > 0, "vfork failed", static_cast<uint64_t>(errno));
    require((rseq_cpu_id() >= 0) == registered, "vfork took the thread's CPU number away");
    const int status = wait_for(child);
    require(WIFEXITED(status) && WEXITSTATUS(status) == 3, "a vfork child failed", static_cast<unsigned>(status));
    for (void* volatile& slot : shared_blocks)
      if (const void* block = slot) verify(block, "a block is damaged after vfork");
  }
  sender.stop();
  end_workers(where);
  freeway::test::proof("forks", "vfork, child on another CPU", "forks", children);
}

void child_on_another_cpu(const Options& options) {
  start_workers(options);
  vfork_again_and_again(options, "audit after vfork children on another CPU");
}

// The same while a handler allocates in every thread, the vforking one included: it may run between any two steps of
// what the library does around the system call.
void handler(int) {
  const int saved_errno = errno;
  if (me == nullptr) return;
  for (int i = 0; i < 5; i++) release_block(allocate_block(me->handler_random, kUpToMedium));
  errno = saved_errno;
}

void child_on_another_cpu_in_a_storm(const Options& options) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  sender.start(options.seed, {SIGUSR1}, 50, 300);
  static Worker vforker;
  me = &vforker;
  sender.set_target(kThreads, raw_gettid());
  start_workers(options);
  vfork_again_and_again(options, "audit after vfork children in a signal storm");
}

// A child that is killed inside the allocator takes with it what the call had in hand, and no more.
void* kill_announced_children(void* argument) {
  Random random(reinterpret_cast<uintptr_t>(argument));
  while (!stopping.load()) {
    const timespec pause{0, static_cast<long>(random.between(20'000, 2'000'000))};
    ::nanosleep(&pause, nullptr);
    if (const pid_t child = child_to_kill.exchange(0); child != 0) ::kill(child, SIGKILL);
  }
  return nullptr;
}

void child_killed_inside_a_call(const Options& options) {
  start_workers(options);
  pthread_t killer;
  require(::pthread_create(&killer, nullptr, kill_announced_children, reinterpret_cast<void*>(options.seed)) == 0,
          "no thread");
  Random random(options.seed);
  uint64_t children = 0;
  for (Deadline deadline(options.seconds); !deadline.passed() || children < 10; children++) {
    pin(parents_cpu);
    const pid_t child = vfork_a_child(random, true);
    require(child > 0, "vfork failed", static_cast<uint64_t>(errno));
    const int status = wait_for(child);
    require(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a vfork child did not die as it should",
            static_cast<unsigned>(status));
    inside_allocator = 0;
    for (void* volatile& slot : shared_blocks)
      if (const void* block = slot) verify(block, "a block is damaged after a vfork child was killed");
  }
  const freeway_audit_t audit = end_workers("audit after vfork children were killed");
  ::pthread_join(killer, nullptr);
  freeway::test::proof("forks", "vfork, child killed inside a call", "forks", children);
  freeway::test::proof("stops and kills", "vfork children", "kills", children);
  Line().count(superblocks_lost(audit), "superblocks lost").write_to(1);
  require(superblocks_lost(audit) <= children, "more superblocks lost than children killed", superblocks_lost(audit),
          children);
}

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv,
                   {{"child_on_another_cpu", child_on_another_cpu},
                    {"child_on_another_cpu_in_a_storm", child_on_another_cpu_in_a_storm},
                    {"child_killed_inside_a_call", child_killed_inside_a_call}});
}
