// SPDX-License-Identifier: MIT
#include "os/process.h"

#include <linux/membarrier.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <time.h>

#include "arch/atomic.h"
#include "arch/slab_layout.h"
#include "os/syscall.h"
#include "os/vm.h"

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#define AT_RSEQ_ALIGN 28
#endif

// Absent before glibc 2.35: then nobody registered rseq, and we do not.
extern "C" {
extern const unsigned int __rseq_size __attribute__((weak));
extern const std::ptrdiff_t __rseq_offset __attribute__((weak));
extern char __libc_single_threaded __attribute__((weak));  // since glibc 2.32
}

namespace freeway::process {

Rseq rseq() {
  Rseq result;
  if (&__rseq_size == nullptr || __rseq_size == 0) return result;
  result.offset = __rseq_offset;
  const auto* area = static_cast<const char*>(__builtin_thread_pointer()) + result.offset;
  result.registered = *reinterpret_cast<const volatile int*>(area + RSEQ_CPU_ID) >= 0;
  // __rseq_size says 20 even where glibc registered 32 bytes and the kernel fills in more.
  const u64 features = getauxval(AT_RSEQ_FEATURE_SIZE);
  const u64 alignment = getauxval(AT_RSEQ_ALIGN);
  result.has_mm_cid = features >= RSEQ_MM_CID + sizeof(u32);
  result.bytes = features <= 32 || alignment == 0 ? 32 : align_up(features, alignment);
  return result;
}

unsigned id_bound() {
  // The kernel answers with the bytes of its CPU mask, whose bits are all the numbers it can have.
  u64 mask[HOT_IDS / 64];
  long bytes = raw_syscall(SYS_sched_getaffinity, 0, sizeof(mask), reinterpret_cast<u64>(mask));
  return bytes <= 0 ? HOT_IDS : static_cast<unsigned>(bytes) * 8;
}

unsigned usable_cpus() {
  u64 mask[HOT_IDS / 64];
  long bytes = raw_syscall(SYS_sched_getaffinity, 0, sizeof(mask), reinterpret_cast<u64>(mask));
  unsigned cpus = 0;
  for (long i = 0; i < bytes / 8; ++i) cpus += popcount(mask[i]);
  return cpus == 0 ? 1 : cpus;
}

bool can_interrupt_sections() {
  return raw_syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0;
}

bool interrupt_sections() { return raw_syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0; }

const char* single_threaded_flag() {
  static constexpr char kNever = 0;
  return &__libc_single_threaded == nullptr ? &kNever : &__libc_single_threaded;
}

u64 address_space_limit() {
  u64 limit[2] = {~u64{0}, ~u64{0}};
  raw_syscall(SYS_prlimit64, 0, RLIMIT_AS, 0, reinterpret_cast<u64>(limit));
  return limit[0];
}

u64 coarse_time_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

bool is_privileged() { return getauxval(AT_SECURE) != 0; }

namespace {

// Word      life_page: 0 -> page (CAS), once. The page's word: 0 (fresh, or wiped by a fork) -> the Claimant word of the
//           thread that sees it so (CAS): in the child of a fork that is the only thread there is
//           last_epoch: in ordinary memory, so a child goes on counting where its parent was
// Lost if killed: a number
constinit Atomic<Atomic<u64>*> life_page;
constinit Atomic<u64> last_epoch;
constexpr uptr kNoSupport = 1;

Atomic<u64>* make_life_page() {
  const std::size_t bytes = vm::page_size();
  uptr page = vm::map(bytes, 64 * kKiB);
  if (page != 0 && !vm::wipe_on_fork(page, bytes)) {
    vm::release(page, bytes);
    page = 0;
  }
  auto* fresh = reinterpret_cast<Atomic<u64>*>(page != 0 ? page : kNoSupport);
  Atomic<u64>* seen = nullptr;
  if (life_page.cas_release(seen, fresh)) return fresh;  // [R1] pairs with [A1]
  if (page != 0) vm::release(page, bytes);
  return life_page.load_acquire();  // [A1] pairs with [R1]
}

// The word of this thread in epoch `epoch`.
u64 word_of(u64 epoch) {
  const u64 thread = reinterpret_cast<u64>(__builtin_thread_pointer()) / 64;
  return (thread << Claimant::kEpochBits) | Claimant::epoch(epoch);
}

}  // namespace

Claimant claimant() {
  Atomic<u64>* page = life_page.load_acquire();  // [A1] pairs with [R1]
  if (page == nullptr) page = make_life_page();
  if (reinterpret_cast<uptr>(page) == kNoSupport) return {word_of(1), 1};
  u64 survivor = page->load_relaxed();
  if (survivor == 0) {
    const u64 mine = word_of(last_epoch.fetch_add_relaxed(1) + 1);
    if (page->cas_relaxed(survivor, mine)) survivor = mine;
  }
  return {word_of(survivor), survivor};
}

}  // namespace freeway::process
