// SPDX-License-Identifier: MIT
//
// The init process of an emulated machine with many CPUs and nodes (many_cpus.py): threads on all of them allocate,
// hand blocks to each other and free, while CPUs go offline and come back and one thread trims. Blocks know what is in
// them; an audit ends it. Prints one line of figures and, if all went well, `PASSED`.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "freeway/freeway.h"
#include "tests/whole/machines/init_program.h"

namespace {

using namespace freeway_test;

constexpr int kSeconds = 10, kMostSeconds = 40;
constexpr uint64_t kEnough = 2;  // CPUs put offline; each takes an emulated machine seconds
constexpr size_t kTable = 100, kMailboxes = 512, kMostThreads = 256;
uint64_t seed = static_cast<uint64_t>(::time(nullptr));
long cpus;
std::atomic<void*> mailboxes[kMailboxes];
std::atomic<bool> stopping{false};
std::atomic<uint64_t> operations{0};
uint64_t times_offline = 0;

// Fails where the CPU is offline: then the thread stays where it is.
void stay_on(long cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

void* work(void* argument) {
  const auto number = reinterpret_cast<uintptr_t>(argument);
  Random random{seed * 977 + number};
  static thread_local void* table[kTable];
  uint64_t done = 0;
  stay_on(static_cast<long>(number) % cpus);
  for (; !stopping.load(std::memory_order_relaxed); done++) {
    if (done % 5000 == 4999) stay_on(static_cast<long>(random.below(static_cast<uint64_t>(cpus))));
    void*& slot = table[random.below(kTable)];
    if (slot == nullptr) {
      slot = get(random.below(50) == 0 ? 16 + random.below(20000) : 16 + random.below(400));
    } else if (random.below(3) == 0) {
      slot = mailboxes[random.below(kMailboxes)].exchange(slot);
    } else {
      put(slot);
      slot = nullptr;
    }
  }
  for (void*& slot : table)
    if (slot != nullptr) put(slot);
  operations.fetch_add(done);
  return nullptr;
}

bool set_online(long cpu, const char* state) {
  char path[64];
  ::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/online", cpu);
  const int file = ::open(path, O_WRONLY);
  const bool done = file >= 0 && ::write(file, state, 1) == 1;
  if (file >= 0) ::close(file);
  return done;
}

unsigned nodes() {
  uint64_t mask[16] = {};
  constexpr unsigned long kAllowed = 4;  // MPOL_F_MEMS_ALLOWED
  if (::syscall(SYS_get_mempolicy, nullptr, mask, sizeof mask * 8, nullptr, kAllowed) != 0) return 0;
  unsigned count = 0;
  for (const uint64_t word : mask) count += static_cast<unsigned>(__builtin_popcountll(word));
  return count;
}

void run() {
  cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  const auto count = static_cast<uintptr_t>(2 * cpus);
  require(count <= kMostThreads, "too many CPUs");
  static pthread_t threads[kMostThreads];
  for (uintptr_t i = 0; i < count; i++)
    require(::pthread_create(&threads[i], nullptr, work, reinterpret_cast<void*>(i)) == 0, "no thread");
  Random random{seed};
  const time_t begun = ::time(nullptr);
  for (time_t now = begun; now < begun + kSeconds || (times_offline < kEnough && now < begun + kMostSeconds);
       now = ::time(nullptr)) {
    const long cpu = 1 + static_cast<long>(random.below(static_cast<uint64_t>(cpus - 1)));
    if (set_online(cpu, "0")) {
      times_offline++;
      ::usleep(200'000);
      require(set_online(cpu, "1"), "a CPU does not come back");
    }
    freeway_trim(0);
    ::usleep(300'000);
  }
  stopping = true;
  for (uintptr_t i = 0; i < count; i++) ::pthread_join(threads[i], nullptr);
  for (auto& mailbox : mailboxes)
    if (void* block = mailbox.exchange(nullptr)) put(block);
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0, "the audit found errors");
  require(audit.superblocks_held == audit.superblocks_held_by_slabs && audit.frames_stranded == 0, "memory was lost");
  require(times_offline > 0, "no CPU could be put offline");
  ::printf("%ld CPUs, %u nodes, %zu threads, %llu operations, %llu times offline\n", cpus, nodes(), count,
           static_cast<unsigned long long>(operations.load()), static_cast<unsigned long long>(times_offline));
}

}  // namespace

int main() {
  ::setvbuf(stdout, nullptr, _IOLBF, 0);
  ::mkdir("/sys", 0755);
  ::mount("sysfs", "/sys", "sysfs", 0, nullptr);
  if (const char* text = ::getenv("FREEWAY_TEST_SEED")) seed = ::strtoull(text, nullptr, 0);
  ::printf("FREEWAY_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const bool is_init = ::getpid() == 1;
  const pid_t child = is_init ? ::fork() : 0;
  if (child == 0) {
    run();
    ::puts("PASSED");
    ::exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::printf("status %d\n", status);
  ::sync();
  ::reboot(RB_POWER_OFF);
}
