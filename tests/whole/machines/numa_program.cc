// SPDX-License-Identifier: MIT
//
// The init process of an emulated machine with several NUMA nodes (numa.py): how many of the blocks that threads get
// lie in memory of another node. Three workloads, each in a process of its own, a thread on each CPU:
//   local       each thread replaces blocks of its own at random
//   exchange    the same, but every third block that is replaced goes to a thread anywhere, which frees it
//   next node   each thread gets blocks which a thread of the next node frees
// Prints a line for each: blocks that were looked at, those of them that lie elsewhere, the peak of the memory; then
// `PASSED`.
#include <pthread.h>
#include <sched.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>

#include "freeway/freeway.h"
#include "tests/whole/machines/init_program.h"

namespace {

using namespace freeway_test;

constexpr size_t kMostThreads = 256, kTable = 200, kRounds = 6, kOfRound = 1000, kMailboxes = 512;
constexpr uint64_t kSteps = 12000, kEvery = 4;  // of which blocks one is looked at
uint64_t seed = 1;
size_t threads;
std::atomic<void*> mailboxes[kMailboxes];
void* letters[kMostThreads][kOfRound];
pthread_barrier_t barrier;
std::atomic<uint64_t> looked_at{0}, elsewhere{0};

unsigned node_of_this_cpu() {
  unsigned node = 0;
  ::syscall(SYS_getcpu, nullptr, &node, nullptr);
  return node;
}

// Notes blocks that a thread was given and has written to, and asks the kernel where they lie.
class Places {
 public:
  ~Places() { ask(); }
  void note(void* block) {
    if (++seen_ % kEvery != 0) return;
    blocks_[count_++] = block;
    if (count_ == kMost) ask();
  }

 private:
  static constexpr size_t kMost = 64;
  void ask() {
    int nodes[kMost];
    const unsigned here = node_of_this_cpu();
    require(::syscall(SYS_move_pages, 0, count_, blocks_, nullptr, nodes, 0) == 0, "move_pages does not answer");
    for (size_t i = 0; i < count_; i++) {
      if (nodes[i] < 0) continue;  // freed and given back meanwhile
      looked_at.fetch_add(1, std::memory_order_relaxed);
      elsewhere.fetch_add(static_cast<unsigned>(nodes[i]) != here, std::memory_order_relaxed);
    }
    count_ = 0;
  }
  void* blocks_[kMost];
  size_t count_ = 0;
  uint64_t seen_ = 0;
};

// Mostly small ones, as programs have them.
void* get_any(Random& random, Places& places) {
  void* block = get(random.below(4) == 0 ? 16 + random.below(1000) : 16 + random.below(112));
  places.note(block);
  return block;
}

void replace(size_t number, bool exchange) {
  Random random{seed * 977 + number};
  Places places;
  void* table[kTable] = {};
  for (uint64_t step = 0; step < kSteps; step++) {
    void*& slot = table[random.below(kTable)];
    if (exchange && slot != nullptr && random.below(3) == 0) slot = mailboxes[random.below(kMailboxes)].exchange(slot);
    if (slot != nullptr) put(slot);
    slot = get_any(random, places);
  }
  for (void* block : table) put(block);
}

void pass_on(size_t number) {
  Random random{seed * 977 + number};
  Places places;
  const size_t next = (number + threads / 4) % threads;
  for (size_t round = 0; round < kRounds; round++) {
    for (void*& block : letters[number]) block = get_any(random, places);
    ::pthread_barrier_wait(&barrier);
    for (void* block : letters[next]) put(block);
    ::pthread_barrier_wait(&barrier);
  }
}

struct Workload {
  const char* name;
  void (*work)(size_t number);
};
constexpr Workload kWorkloads[] = {{"local", [](size_t number) { replace(number, false); }},
                                   {"exchange", [](size_t number) { replace(number, true); }},
                                   {"next node", pass_on}};
void (*current)(size_t number);

void* on_its_cpu(void* argument) {
  const auto number = reinterpret_cast<uintptr_t>(argument);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(number, &set);
  require(::sched_setaffinity(0, sizeof set, &set) == 0, "a CPU is not there");
  ::pthread_barrier_wait(&barrier);
  current(number);
  return nullptr;
}

void run(const Workload& workload) {
  current = workload.work;
  static pthread_t made[kMostThreads];
  for (uintptr_t i = 0; i < threads; i++)
    require(::pthread_create(&made[i], nullptr, on_its_cpu, reinterpret_cast<void*>(i)) == 0, "no thread");
  for (size_t i = 0; i < threads; i++) ::pthread_join(made[i], nullptr);
  for (auto& mailbox : mailboxes)
    if (void* block = mailbox.exchange(nullptr)) put(block);
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0, "the audit found errors");
  require(audit.superblocks_held == audit.superblocks_held_by_slabs && audit.frames_stranded == 0, "memory was lost");
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  ::printf("%s: %llu blocks, %llu elsewhere, peak %ld KiB\n", workload.name,
           static_cast<unsigned long long>(looked_at.load()), static_cast<unsigned long long>(elsewhere.load()),
           usage.ru_maxrss);
}

bool passes(const Workload& workload) {
  const pid_t child = ::fork();
  if (child == 0) {
    run(workload);
    ::exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

int main() {
  ::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (const char* text = ::getenv("FREEWAY_TEST_SEED")) seed = ::strtoull(text, nullptr, 0);
  threads = static_cast<size_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  require(threads >= 4 && threads <= kMostThreads, "too few CPUs, or too many");
  ::printf("FREEWAY_TEST_SEED=%llu, %zu CPUs\n", static_cast<unsigned long long>(seed), threads);
  ::pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(threads));
  const bool all = std::all_of(std::begin(kWorkloads), std::end(kWorkloads), passes);
  ::puts(all ? "PASSED" : "a workload failed");
  if (::getpid() == 1) ::reboot(RB_POWER_OFF);
  return all ? 0 : 1;
}
