// SPDX-License-Identifier: MIT
//
// Starting programs from a process whose other threads allocate all the time: system, popen, posix_spawn, fork + exec
// and vfork + exec, from three threads at once. None of them may hang, fail, or disturb the heap of the parent.
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>

#include "tests/support/proof.h"
#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"

extern char** environ;

namespace {
using namespace freeway_test;

constexpr size_t kAllocators = 5;
constexpr size_t kSpawners = 3;
constexpr size_t kTable = 200;

struct Worker {
  pthread_t thread;
  Random random{0};
  uint64_t done = 0;
};

Worker allocators[kAllocators];
Worker spawners[kSpawners];
std::atomic<bool> stopping{false};

void* allocate_all_the_time(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  void* table[kTable] = {};
  while (!stopping.load(std::memory_order_relaxed)) {
    void*& slot = table[worker->random.below(kTable)];
    if (slot == nullptr) {
      slot = allocate_block(worker->random, kAllSizes);
    } else {
      release_block(slot);
      slot = nullptr;
    }
    worker->done++;
  }
  for (void* block : table)
    if (block != nullptr) release_block(block);
  return nullptr;
}

void require_exit_3(pid_t child, const char* who) {
  const int status = wait_for(child);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 3, who, static_cast<unsigned>(status));
}

void by_system() {
  const int status = ::system("exit 3");
  require(WIFEXITED(status) && WEXITSTATUS(status) == 3, "system", static_cast<unsigned>(status));
}

void by_popen() {
  FILE* pipe = ::popen("echo a line of text; exit 3", "r");
  require(pipe != nullptr, "popen");
  char line[64] = "";
  require(std::fgets(line, sizeof line, pipe) != nullptr && std::strcmp(line, "a line of text\n") == 0,
          "text from popen");
  const int status = ::pclose(pipe);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 3, "pclose", static_cast<unsigned>(status));
}

char* const kShell[] = {const_cast<char*>("sh"), const_cast<char*>("-c"), const_cast<char*>("exit 3"), nullptr};

void by_posix_spawn() {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  pid_t child = 0;
  require(::posix_spawnp(&child, "sh", &actions, nullptr, kShell, environ) == 0, "posix_spawnp");
  ::posix_spawn_file_actions_destroy(&actions);
  require_exit_3(child, "posix_spawn");
}

void by_fork() {
  const pid_t child = ::fork();
  if (child == 0) {
    void* block = ::malloc(1000);  // a child that allocates before exec, as many do
    ::free(block);
    ::execv("/bin/sh", kShell);
    ::_exit(126);
  }
  require(child > 0, "fork");
  require_exit_3(child, "fork and exec");
}

void by_vfork() {
  const int cpu_before = rseq_cpu_id();
  const pid_t child = ::vfork();
  if (child == 0) {
    ::execv("/bin/sh", kShell);
    ::_exit(126);
  }
  require(child > 0, "vfork");
  // Whatever was done to keep the child off the parent's per-CPU data is undone.
  require((rseq_cpu_id() >= 0) == (cpu_before >= 0), "vfork took the thread's CPU number away");
  require_exit_3(child, "vfork and exec");
}

void* spawn_all_the_time(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  constexpr void (*kWays[])() = {by_system, by_popen, by_posix_spawn, by_fork, by_vfork};
  for (; !stopping.load(std::memory_order_relaxed) || worker->done < std::size(kWays); worker->done++) {
    for (int i = 0; i < 50; i++) release_block(allocate_block(worker->random, kUpToMedium));
    kWays[worker->done % std::size(kWays)]();
  }
  return nullptr;
}

void start_programs(const Options& options) {
  uint64_t seed = options.seed;
  for (Worker& worker : allocators) {
    worker.random = Random(seed++);
    require(::pthread_create(&worker.thread, nullptr, allocate_all_the_time, &worker) == 0, "no thread");
  }
  for (Worker& worker : spawners) {
    worker.random = Random(seed++);
    require(::pthread_create(&worker.thread, nullptr, spawn_all_the_time, &worker) == 0, "no thread");
  }
  for (Deadline deadline(options.seconds); !deadline.passed();) {
    const timespec pause{0, 20'000'000};
    ::nanosleep(&pause, nullptr);
  }
  stopping = true;
  uint64_t started = 0, operations = 0;
  for (Worker& worker : spawners) {
    ::pthread_join(worker.thread, nullptr);
    started += worker.done;
  }
  for (Worker& worker : allocators) {
    ::pthread_join(worker.thread, nullptr);
    require(worker.done > 0, "a thread did nothing at all");
    operations += worker.done;
  }
  require_clean_audit("audit after programs were started");
  using freeway::test::proof;
  proof("forks", "system, popen, posix_spawn, fork + exec, vfork + exec", "programs started", started);
  proof("forks", "system, popen, posix_spawn, fork + exec, vfork + exec", "operations of the parent's threads",
        operations);
}

}  // namespace

int main(int argc, char** argv) { return run_cases(argc, argv, {{"start_programs", start_programs}}); }
