// SPDX-License-Identifier: MIT
//
// What can be seen of Freeway on aarch64 only where there is a kernel with restartable sequences: this program is
// linked with libfreeway.a and is the init process of a virtual machine (virtual_machine.py). It prints one line per
// case and, if all of them passed, `PASSED`.
//
//   restarts           whether the kernel restarts sections that it preempts; it must if the library trusts it. Where
//                      it does not the library must use spare slabs, and there is no every_instruction
//   every_instruction  a breakpoint on each instruction of each section in use: the kernel must send the thread to the
//                      abort address, and the section must start again as if nothing had been done. Three ways: three
//                      times in a row; on a slab, the malloc's or a heap's, that the handler has changed; on another
//                      CPU
//   many_threads       threads that allocate, hand blocks to each other and free, more of them than CPUs, with a signal
//                      handler that does so too; beside them malloc_trim (which takes slabs away from other CPUs) and
//                      children of vfork. All blocks carry patterns; an audit ends it
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <iterator>

#include "cache/hot.h"
#include "command/restart_probe.h"
#include "freeway/freeway.h"
#include "freeway/heap.h"
#include "os/kernel_release.h"
#include "tests/whole/machines/init_program.h"

extern "C" {
struct Section {  // struct rseq_cs
  uint32_t version, flags;
  uint64_t start, length, abort;
};
// Hidden names of the library: the static one lets us at them.
extern const Section freeway_section_malloc, freeway_section_malloc_by_cpu, freeway_section_free,
    freeway_section_free_by_cpu, freeway_section_new, freeway_section_new_by_cpu, freeway_section_pop,
    freeway_section_push, freeway_section_pop_batch, freeway_section_push_batch, freeway_section_push_run,
    freeway_section_exchange, freeway_section_replace, freeway_section_open, freeway_section_move, freeway_section_grow,
    freeway_section_store_if, freeway_section_give_own, freeway_section_malloc_own, freeway_section_free_own;
void* freeway_own_new(size_t size);
uint64_t freeway_rseq_pop(const void* table, uint64_t size_class);
}

namespace {

using namespace freeway_test;

constexpr unsigned long kFeatureSizeEntry = 27;  // AT_RSEQ_FEATURE_SIZE
bool goes_by_mm_cid() { return ::getauxval(kFeatureSizeEntry) >= 28; }

uint64_t seed = static_cast<uint64_t>(::time(nullptr));

void require_clean_audit() {
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0, "the audit found errors");
  require(audit.superblocks_held == audit.superblocks_held_by_slabs && audit.frames_stranded == 0, "memory was lost");
}

// --- every_instruction
// -------------------------------------------------------------------------------------------------

constexpr uint32_t kBreak = 0xd4200000;  // brk #0

enum class Way { kRepeat, kAllocate, kMigrate };
constexpr const char* kWays[] = {"repeat", "allocate", "migrate"};

const Section* planted_section;
volatile uint32_t* planted_at;
uint32_t planted_over;
Way way;
volatile int times_aborted;

void plant(volatile uint32_t* at) {
  planted_at = at;
  planted_over = *at;
  *at = kBreak;
  __builtin___clear_cache(reinterpret_cast<char*>(const_cast<uint32_t*>(at)),
                          reinterpret_cast<char*>(const_cast<uint32_t*>(at + 1)));
}
void take_away() {
  *planted_at = planted_over;
  __builtin___clear_cache(reinterpret_cast<char*>(const_cast<uint32_t*>(planted_at)),
                          reinterpret_cast<char*>(const_cast<uint32_t*>(planted_at + 1)));
}

// All the paths of a slab: magazines opened, refilled, flushed, moved and grown. freeway_rseq_pop finds a block only if
// the CPU changed since malloc found none: it is called by hand.
void drive_slab(Random random) {
  static void* blocks[1500];
  for (uint64_t c = 1; c < 8; c++)
    if (const uint64_t block = freeway_rseq_pop(freeway_hot.slab_of, c); block + 1 > 1)
      ::free(reinterpret_cast<void*>(block));
  const size_t size = 16 + random.below(8) * 16;
  for (int swing = 0; swing < 4; swing++) {
    for (void*& block : blocks) block = get(size);
    for (void*& block : blocks) put(block);
    ::free(freeway_own_new(size));
  }
}

// The heap that drive_heap has, as long as it may be used.
freeway_heap_t volatile driven_heap;

// Of strips, or, if it is large, of slices; by malloc, or by what does not end in one section.
void* get_of(freeway_heap_t heap, size_t number, bool is_large) {
  const size_t size = 16 + number % 8 * 16 + (is_large ? 2500 : 0);
  return get_as(number % 3 == 0 ? freeway_heap_calloc(heap, 1, size) : freeway_heap_malloc(heap, size), size);
}

// All the paths of a heap's cache: filled, laid back on, emptied by the trim.
void drive_heap(Random random) {
  static void* blocks[300];
  const freeway_heap_t heap = freeway_heap_new(nullptr, 0);
  require(heap != nullptr, "no heap");
  driven_heap = heap;
  for (int swing = 0; swing < 2; swing++) {
    for (void*& block : blocks) block = get_of(heap, random.below(24), random.below(4) == 0);
    for (void* block : blocks) put(block);
    freeway_heap_trim(heap);
  }
  driven_heap = nullptr;
  require(freeway_heap_destroy(heap) == 0, "a heap cannot be destroyed");
}

void drive(Random random) {
  drive_slab(random);
  drive_heap(random);
}

void on_break(int, siginfo_t*, void* context) {
  const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  require(machine.pc == planted_section->abort, "the thread was not sent to the abort address",
          reinterpret_cast<void*>(machine.pc));
  take_away();
  times_aborted = times_aborted + 1;
  if (way == Way::kRepeat && times_aborted < 3) plant(planted_at);
  if (way == Way::kMigrate) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((::sched_getcpu() + 1) % static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), &set);
    require(::sched_setaffinity(0, sizeof set, &set) == 0, "no other CPU");
  }
  if (way != Way::kRepeat) {
    void* blocks[200];
    for (size_t i = 0; i < std::size(blocks); i++) blocks[i] = get(16 + i % 8 * 16);
    for (void* block : blocks) put(block);
    if (const freeway_heap_t heap = driven_heap) {
      for (size_t i = 0; i < std::size(blocks); i++) blocks[i] = get_of(heap, i, i % 4 == 0);
      for (void* block : blocks) put(block);
    }
  }
}

[[noreturn]] void interrupt_once() {
  plant(planted_at);
  for (uint64_t round = 0; round < 50 && times_aborted == 0; round++) drive(Random(seed + round));
  if (times_aborted == 0) ::_exit(3);
  require(way != Way::kRepeat || times_aborted == 3, "the section did not start again");
  drive(Random(seed));
  require_clean_audit();
  ::_exit(0);
}

// Makes the text of the section writable, for this process.
void open_text(const Section& section) {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t from = section.start & ~(page - 1), to = (section.abort + page) & ~(page - 1);
  require(::mprotect(reinterpret_cast<void*>(from), to - from, PROT_READ | PROT_WRITE | PROT_EXEC) == 0,
          "text is not writable");
}

size_t interrupt_everywhere(const Section& section, const char* name) {
  open_text(section);
  planted_section = &section;
  const size_t count = section.length / 4;
  for (size_t i = 0; i < count; i++)
    for (const Way each : {Way::kRepeat, Way::kAllocate, Way::kMigrate}) {
      way = each;
      planted_at = reinterpret_cast<volatile uint32_t*>(section.start) + i;
      const pid_t child = ::fork();
      if (child == 0) interrupt_once();
      int status = -1;
      require(::waitpid(child, &status, 0) == child, "fork");
      if (status == 0) continue;
      ::printf("%s+%zu, %s: %s\n", name, i * 4, kWays[static_cast<int>(each)],
               WIFEXITED(status) && WEXITSTATUS(status) == 3 ? "the workload did not come by" : "the child failed");
      fail("a section could not be interrupted everywhere", &section);
    }
  ::printf("  %s: %zu instructions\n", name, count);
  return count;
}

void every_instruction() {
  struct sigaction action = {};
  action.sa_sigaction = on_break;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGTRAP, &action, nullptr);
  const struct {
    const Section& section;
    const char* name;
    bool in_use = true;
  } sections[] = {{freeway_section_malloc, "malloc", goes_by_mm_cid()},
                  {freeway_section_malloc_by_cpu, "malloc_by_cpu", !goes_by_mm_cid()},
                  {freeway_section_free, "free", goes_by_mm_cid()},
                  {freeway_section_free_by_cpu, "free_by_cpu", !goes_by_mm_cid()},
                  {freeway_section_new, "new", goes_by_mm_cid()},
                  {freeway_section_new_by_cpu, "new_by_cpu", !goes_by_mm_cid()},
                  {freeway_section_pop, "pop"},
                  {freeway_section_push, "push"},
                  {freeway_section_pop_batch, "pop_batch"},
                  {freeway_section_push_batch, "push_batch"},
                  {freeway_section_push_run, "push_run"},
                  {freeway_section_exchange, "exchange"},
                  {freeway_section_replace, "replace"},
                  {freeway_section_open, "open"},
                  {freeway_section_move, "move"},
                  {freeway_section_grow, "grow"},
                  {freeway_section_store_if, "store_if"},
                  {freeway_section_give_own, "give_own"},
                  {freeway_section_malloc_own, "malloc_own"},
                  {freeway_section_free_own, "free_own"}};
  size_t total = 0;
  for (const auto& each : sections)
    if (each.in_use) total += interrupt_everywhere(each.section, each.name);
  ::printf("every_instruction: %zu instructions, each interrupted in 3 ways\n", total);
}

// --- restarts
// ----------------------------------------------------------------------------------------------------------

// Whether the library trusts this kernel.
bool restarts() {
  utsname name{};
  ::uname(&name);
  const bool trusted = freeway::restarts_sections(freeway::kThisProcessor, name.release);
  const freeway_command::RestartProbe found = freeway_command::probe_restarts();
  ::printf("restarts: Linux %s, %d of %d preempted sections restarted\n", name.release, found.restarted,
           found.restarted + found.not_restarted);
  require(found.tried(), "no section could be tried");
  require(!trusted || found.not_restarted == 0, "a section went on after it was preempted");
  return trusted;
}

// --- many_threads
// ------------------------------------------------------------------------------------------------------

constexpr int kThreads = 12;
constexpr size_t kTable = 400;
std::atomic<void*> mailboxes[256];
std::atomic<bool> stopping{false};
std::atomic<uint64_t> operations{0}, interruptions{0};

size_t any_size(Random& random) { return random.below(20) == 0 ? 16 + random.below(20000) : 16 + random.below(500); }

void on_signal(int) {
  const int before = errno;
  put(get(16 + interruptions.fetch_add(1) % 300));
  errno = before;
}

void* work(void* argument) {
  Random random{seed * 977 + reinterpret_cast<uintptr_t>(argument)};
  static thread_local void* table[kTable];
  uint64_t done = 0;
  for (; !stopping.load(std::memory_order_relaxed); done++) {
    void*& slot = table[random.below(kTable)];
    if (slot == nullptr) {
      slot = get(any_size(random));
    } else if (random.below(4) == 0) {
      slot = mailboxes[random.below(std::size(mailboxes))].exchange(slot);
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

void many_threads(int seconds) {
  ::signal(SIGUSR1, on_signal);
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; i++)
    require(::pthread_create(&threads[i], nullptr, work, reinterpret_cast<void*>(i)) == 0, "no thread");
  Random random{seed};
  uint64_t children = 0, trims = 0;
  for (const time_t end = ::time(nullptr) + seconds; ::time(nullptr) < end;) {
    for (int i = 0; i < 4; i++) {
      ::pthread_kill(threads[random.below(kThreads)], SIGUSR1);
      ::usleep(200);
    }
    if (trims++ % 8 == 0) freeway_trim(0);
    void* volatile block = get(100);
    volatile bool child_was_here = false;
    const pid_t child = ::vfork();
    if (child == 0) {
      child_was_here = true;
      for (int i = 0; i < 300; i++) {
        put(block);
        block = get(16 + static_cast<size_t>(i));
      }
      ::_exit(7);
    }
    int status = 0;
    require(child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7,
            "a vfork child failed");
    require(child_was_here, "vfork is a fork here");
    put(block);
    children++;
  }
  stopping = true;
  for (pthread_t thread : threads) ::pthread_join(thread, nullptr);
  for (auto& mailbox : mailboxes)
    if (void* block = mailbox.exchange(nullptr)) put(block);
  require_clean_audit();
  ::printf("many_threads: %llu operations, %llu signals handled, %llu vfork children\n",
           static_cast<unsigned long long>(operations.load()), static_cast<unsigned long long>(interruptions.load()),
           static_cast<unsigned long long>(children));
}

}  // namespace

int main(int, char**) {
  ::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (const char* text = ::getenv("FREEWAY_TEST_SEED")) seed = ::strtoull(text, nullptr, 0);
  const bool is_init = ::getpid() == 1;
  const pid_t child = is_init ? ::fork() : 0;
  int status = 0;
  if (child == 0) {
    ::printf("FREEWAY_TEST_SEED=%llu, %ld CPUs, by %s\n", static_cast<unsigned long long>(seed),
             ::sysconf(_SC_NPROCESSORS_ONLN), goes_by_mm_cid() ? "mm_cid" : "cpu_id");
    if (restarts()) every_instruction();
    many_threads(20);
    ::puts("PASSED");
    if (!is_init) return 0;
    ::exit(0);
  }
  ::waitpid(child, &status, 0);
  ::printf("status %d\n", status);
  ::sync();
  ::reboot(RB_POWER_OFF);
}
