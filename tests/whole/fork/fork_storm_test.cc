// SPDX-License-Identifier: MIT
//
// Fork storms: a process whose eight threads allocate all the time forks again and again: by the C library's fork and
// _Fork, by the bare system calls that no library sees, and from a handler that interrupted the allocator. A child has
// one thread and a copy of a heap in which eight others were stopped at arbitrary instructions. Its audit must be
// clean, and it must be able to check, resize and free every block that it inherited, also other threads', to allocate,
// start threads, fork, spawn and exec.
#include <pthread.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>

#include "tests/support/engine_under_test.h"
#include "tests/support/proof.h"
#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/shared_memory.h"
#include "tests/whole/signal/support/signal_sender.h"

namespace {
using namespace freeway_test;

constexpr size_t kThreads = 8;
constexpr size_t kTable = 150;
constexpr int kMostChildren = 4;

// The blocks of one thread. A slot that is not null points to a block that is whole: it is stored after the stamp and
// cleared before the block is touched again. Fork copies memory as it was at one moment, so this holds in a child too.
struct Worker {
  pthread_t thread;
  size_t index = 0;
  Random random{0};
  std::atomic<void*> table[kTable] = {};
  uint64_t operations = 0;
};

// Of all generations; shared with the children.
struct Counts {
  std::atomic<uint64_t> children{0}, audits{0}, threads{0}, programs{0};
};
Counts* counts;

Worker workers[kThreads];
constinit thread_local Worker* volatile me = nullptr;
std::atomic<bool> stopping{false};
SignalSender sender;

void operate(Worker* worker, const SizeMix& mix) {
  Random& random = worker->random;
  std::atomic<void*>& slot = worker->table[random.below(kTable)];
  void* block = slot.load(std::memory_order_relaxed);
  slot.store(nullptr, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (block == nullptr) {
    block = allocate_block(random, mix);
  } else if (random.one_in(4)) {
    block = resize_block(random, block, random_size(random, mix));
  } else {
    release_block(block);
    block = nullptr;
  }
  slot.store(block, std::memory_order_release);
  worker->operations++;
}

pid_t libc_fork() { return ::fork(); }
pid_t libc_underscore_fork() { return ::_Fork(); }
pid_t raw_clone() { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }
#ifdef SYS_fork
pid_t raw_fork() { return static_cast<pid_t>(::syscall(SYS_fork)); }
#else
pid_t raw_fork() { return raw_clone(); }
#endif

using ForkFunction = pid_t (*)();

void* life_of_a_thread(void* argument) {
  Random random(reinterpret_cast<uintptr_t>(argument));
  for (int i = 0; i < 300; i++) release_block(allocate_block(random, kAllSizes));
  return nullptr;
}

// Everything that the child's one thread inherited is checked; about half of it is freed, some resized.
void use_inheritance(Random& random) {
  for (Worker& worker : workers)
    for (auto& slot : worker.table) {
      void* block = slot.load(std::memory_order_acquire);
      if (block == nullptr) continue;
      if (random.one_in(2)) {
        slot.store(nullptr);
        release_block(block);
      } else if (random.one_in(8)) {
        slot.store(nullptr);
        slot.store(resize_block(random, block, random_size(random, kUpToMedium)));
      } else {
        verify(block, "a block is damaged in the forked child");
      }
    }
}

void audit_child(const char* where) {
  require_clean_audit(where);
  counts->audits.fetch_add(1);
}

constexpr char kSelf[] = "/proc/self/exe";
char* const kExeced[] = {const_cast<char*>("exec"), const_cast<char*>("--case=execed_program"), nullptr};

// The program once more, by posix_spawn or by vfork and exec, from the child of a fork.
void start_a_program(Random& random) {
  pid_t program = 0;
  if (random.one_in(2)) {
    require(::posix_spawn(&program, kSelf, nullptr, nullptr, kExeced, environ) == 0, "a forked child cannot spawn");
  } else {
    program = ::vfork();
    if (program == 0) {
      ::execv(kSelf, kExeced);
      ::_exit(126);
    }
  }
  require_child_success(program, "a program that a forked child started failed");
  counts->programs.fetch_add(1);
}

// What a child does; `again` makes the grandchildren.
[[noreturn]] void life_of_a_child(uint64_t seed, ForkFunction again, int generation) {
  Random random(seed);
  counts->children.fetch_add(1);
  // Each thread of the parent, and of the parents before, may have left the page block that it was changing.
  if (freeway::test::on_engine("streamflow")) audit_errors_tolerated += kThreads + 1;
  audit_child("audit in a forked child");
  void* fresh[400];
  if (random.one_in(2)) use_inheritance(random);
  for (void*& block : fresh) block = allocate_block(random, kUpToMedium);
  if (random.one_in(2)) use_inheritance(random);
  for (void* block : fresh) release_block(block);

  if (random.one_in(4)) {
    pthread_t thread;
    require(::pthread_create(&thread, nullptr, life_of_a_thread, reinterpret_cast<void*>(seed)) == 0, "no thread");
    for (int i = 0; i < 300; i++) release_block(allocate_block(random, kAllSizes));
    ::pthread_join(thread, nullptr);
    counts->threads.fetch_add(1);
  }
  if (generation < 2 && random.one_in(3)) {
    const pid_t grandchild = again();
    if (grandchild == 0) life_of_a_child(seed * 7 + 1, again, generation + 1);
    require(grandchild > 0, "a forked child cannot fork", static_cast<uint64_t>(errno));
    for (int i = 0; i < 100; i++) release_block(allocate_block(random, kUpToMedium));
    require_child_success(grandchild, "a grandchild failed");
  }
  if (random.one_in(10)) start_a_program(random);
  for (Worker& worker : workers)
    for (auto& slot : worker.table)
      if (const void* block = slot.load()) verify(block, "a block is damaged at the end of a forked child");
  if (random.one_in(2)) audit_child("audit at the end of a forked child");
  if (random.one_in(16)) {
    counts->programs.fetch_add(1);
    ::execv(kSelf, kExeced);
    ::_exit(126);
  }
  ::_exit(0);
}

void* work(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  while (!stopping.load(std::memory_order_relaxed)) operate(worker, kAllSizes);
  return nullptr;
}

void start_workers(uint64_t seed, void* (*function)(void*)) {
  for (size_t i = 0; i < kThreads; i++) {
    workers[i].index = i;
    workers[i].random = Random(seed * 31 + i);
    require(::pthread_create(&workers[i].thread, nullptr, function, &workers[i]) == 0, "no thread");
  }
}

void end_workers() {
  stopping = true;
  for (Worker& worker : workers) ::pthread_join(worker.thread, nullptr);
  for (Worker& worker : workers)
    for (auto& slot : worker.table)
      if (void* block = slot.exchange(nullptr)) release_block(block);
  require_clean_audit("audit in the parent after a fork storm");
}

// At least so many forks: FREEWAY_FORKS, for long runs.
uint64_t forks_wanted() {
  const char* text = std::getenv("FREEWAY_FORKS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 30;
}

void print_totals(const char* subject) {
  using freeway::test::proof;
  uint64_t operations = 0;
  for (const Worker& worker : workers) operations += worker.operations;
  proof("forks", subject, "forks", counts->children);
  proof("forks", subject, "audits in children", counts->audits);
  proof("forks", subject, "children that started threads", counts->threads);
  proof("forks", subject, "programs that children started", counts->programs);
  proof("forks", subject, "operations of the parent's threads", operations);
}

void storm(const Options& options, ForkFunction fork_function, const char* subject) {
  counts = share<Counts>();
  start_workers(options.seed, work);
  Random random(options.seed);
  pid_t children[kMostChildren] = {};
  uint64_t forks = 0;
  for (Deadline deadline(options.seconds); !deadline.passed() || forks < forks_wanted(); forks++) {
    pid_t& child = children[forks % kMostChildren];
    if (child > 0) require_child_success(child, "a forked child failed");
    const uint64_t seed = random.next();
    child = fork_function();
    if (child == 0) life_of_a_child(seed, fork_function, 0);
    require(child > 0, "fork failed", static_cast<uint64_t>(errno));
  }
  for (const pid_t child : children)
    if (child > 0) require_child_success(child, "a forked child failed");
  end_workers();
  print_totals(subject);
}

void fork_of_the_c_library(const Options& options) { storm(options, libc_fork, "fork of the C library"); }
void underscore_fork(const Options& options) { storm(options, libc_underscore_fork, "_Fork"); }
void raw_fork_system_call(const Options& options) { storm(options, raw_fork, "fork system call"); }
void raw_clone_system_call(const Options& options) { storm(options, raw_clone, "clone system call"); }

// --- A handler interrupts the allocator, forks, and both sides go on with the interrupted call. ---------------------

std::atomic<uint64_t> forks_in_handlers{0};
std::atomic<int> children_alive{0};
std::atomic<bool> may_fork{true};
volatile bool in_child = false;

void forking_handler(int) {
  const int saved_errno = errno;
  if (me == nullptr || inside_allocator == 0 || in_child || children_alive.load() >= kMostChildren) return;
  children_alive.fetch_add(1);
  if (!may_fork.load()) {
    children_alive.fetch_sub(1);
    return;
  }
  const uint64_t number = forks_in_handlers.fetch_add(1);
  const pid_t child = raw_fork();
  if (child == 0) {
    in_child = true;
    // Half of the children allocate before the interrupted call goes on, half after it.
    if (number % 2 == 0) {
      Random random(number);
      void* blocks[64];
      for (void*& block : blocks) block = allocate_block(random, kUpToMedium);
      for (void* block : blocks) release_block(block);
    }
  }
  require(child >= 0, "fork in a handler failed", static_cast<uint64_t>(errno));
  errno = saved_errno;
}

void* work_until_forked(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  me = worker;
  sender.set_target(worker->index, raw_gettid());
  while (!stopping.load(std::memory_order_relaxed)) {
    operate(worker, kAllSizes);
    if (in_child) {
      for (int i = 0; i < 500; i++) operate(worker, kUpToMedium);
      life_of_a_child(worker->random.next(), raw_fork, 1);
    }
  }
  sender.set_target(worker->index, 0);
  return nullptr;
}

void fork_inside_a_call(const Options& options) {
  counts = share<Counts>();
  sender.start(options.seed, {SIGUSR1}, 300, 1500);
  struct sigaction action = {};
  action.sa_handler = forking_handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  start_workers(options.seed, work_until_forked);
  Deadline deadline(options.seconds);
  while (may_fork.load() || children_alive.load() > 0) {
    if (deadline.passed() && forks_in_handlers.load() >= forks_wanted()) may_fork.store(false);
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, WNOHANG);
    if (child > 0) {
      require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child forked inside an allocator call failed",
              static_cast<uint64_t>(child), static_cast<unsigned>(status));
      children_alive.fetch_sub(1);
    } else {
      const timespec pause{0, 1'000'000};
      ::nanosleep(&pause, nullptr);
    }
  }
  sender.stop();
  end_workers();
  print_totals("fork from a handler inside a call");
}

void execed_program(const Options& options) {
  Random random(options.seed);
  for (int i = 0; i < 2000; i++) release_block(allocate_block(random, kUpToMedium));
  require_clean_audit("audit in a program that was just started");
}

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv,
                   {{"fork_of_the_c_library", fork_of_the_c_library},
                    {"underscore_fork", underscore_fork},
                    {"raw_fork_system_call", raw_fork_system_call},
                    {"raw_clone_system_call", raw_clone_system_call},
                    {"fork_inside_a_call", fork_inside_a_call},
                    {"execed_program", execed_program}});
}
