// SPDX-License-Identifier: MIT
//
// A sandbox that kills a process for membarrier or mincore (SECCOMP_RET_KILL_PROCESS), installed once it runs: threads
// that allocate, free each other's blocks, change CPUs and fork go on as before. Only malloc_trim makes these calls
// (and whatever finds no memory), and is killed for them; where there is no rseq, membarrier is how threads take slabs
// from each other, so that one is not tried there: docs/limits.md.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/support/cpu_affinity.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"
#include "tests/whole/signal/support/failure.h"

namespace {
using namespace freeway_test;

constexpr size_t kThreads = 4, kShared = 2000, kRounds = 60'000;
std::atomic<void*> shared[kShared];
std::vector<int> cpus;

void kill_for(unsigned call) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof code / sizeof code[0], code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
    skip("no seccomp filters here");
}

// A block of a size that now and then is large, marked so that whoever frees it can see that it is whole.
void* make(Random& random) {
  const size_t bytes = random.one_in(200) ? random.between(40'000, 2'000'000) : random.between(16, 3000);
  auto* block = static_cast<size_t*>(std::malloc(bytes));
  require(block != nullptr, "no memory", bytes);
  block[0] = bytes;
  block[bytes / sizeof(size_t) - 1] = bytes;
  return block;
}

void unmake(void* block) {
  if (block == nullptr) return;
  const auto* words = static_cast<const size_t*>(block);
  require(words[words[0] / sizeof(size_t) - 1] == words[0], "a block is damaged");
  std::free(block);
}

void* live(void* seed) {
  Random random(reinterpret_cast<uintptr_t>(seed));
  for (size_t i = 0; i < kRounds; i++) {
    if (i % 5000 == 0) stay_on(cpus[random.below(cpus.size())]);
    unmake(shared[random.below(kShared)].exchange(make(random)));
  }
  return nullptr;
}

void live_in_threads() {
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; i++)
    require(::pthread_create(&threads[i], nullptr, live, reinterpret_cast<void*>(i + 1)) == 0, "no thread");
  const pid_t child = ::fork();
  if (child == 0) {
    live(reinterpret_cast<void*>(kThreads + 1));
    ::_exit(0);
  }
  int status = -1;
  require(child > 0 && ::waitpid(child, &status, 0) == child && status == 0, "the child of a fork", status);
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  for (auto& block : shared) unmake(block.exchange(nullptr));
}

// How a process ends that lives under the filter, and then trims or does not.
int end_of_life(unsigned call, bool trim) {
  const pid_t child = ::fork();
  if (child == 0) {
    kill_for(call);
    live_in_threads();
    if (trim) ::malloc_trim(0);
    ::_exit(0);
  }
  int status = -1;
  require(child > 0 && ::waitpid(child, &status, 0) == child, "fork");
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipStatus) skip("no seccomp filters here");
  return status;
}

bool killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS; }

}  // namespace

int main() {
  cpus = usable_cpus();
  live_in_threads();
  const char* mode = std::getenv("FREEWAY_RSEQ");
  const bool offered = ::syscall(SYS_rseq, nullptr, 0, 0, 0) == -1 && errno != ENOSYS;
  const bool rseq = offered && (mode == nullptr || std::strcmp(mode, "0") != 0);
  struct Case {
    unsigned call;
    const char* name;
    bool trim_makes_it;
  };
  for (const Case& each : {Case{SYS_membarrier, "membarrier", true}, Case{SYS_mincore, "mincore", true}}) {
    if (each.call == SYS_membarrier && !rseq) continue;
    require(end_of_life(each.call, /*trim=*/false) == 0, each.name);
    // The filter is there, and the documentation true.
    require(killed(end_of_life(each.call, /*trim=*/true)) == each.trim_makes_it, "malloc_trim was to be killed");
    freeway::test::proof("system calls", "filters that kill", "programs", 2);
  }
  return 0;
}
