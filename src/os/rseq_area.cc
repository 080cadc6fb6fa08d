// SPDX-License-Identifier: MIT
#include "os/rseq_area.h"

#include <pthread.h>

#include <initializer_list>

#include "arch/rseq_layout.h"
#include "os/syscall.h"
#include "os/thread_exit.h"

// They tell the C library. Both are glibc's alone; the second one is in static programs, the first in others.
extern "C" {
extern const char* gnu_get_libc_version() __attribute__((weak));
extern void __libc_setup_tls() __attribute__((weak));
}
#pragma weak pthread_create

namespace freeway::process {

namespace {

// The kernel's layout of struct rseq.
struct alignas(32) Area {
  u32 cpu_id_start = 0;
  int cpu_id = -1;
  u64 rseq_cs = 0;
  u32 flags = 0, node_id = 0, mm_cid = 0, slice_control = 0;
};
static_assert(sizeof(Area) == kRseqBytes && offsetof(Area, cpu_id) == RSEQ_CPU_ID);

constinit thread_local Area own;
constinit thread_local Area decoy;
constinit thread_local u32 tried = 0;

u64 offset_of(const Area& area) {
  u64 offset = reinterpret_cast<u64>(&area) - reinterpret_cast<u64>(__builtin_thread_pointer());
  asm(""
      : "+r"(offset));  // a linker of static programs can replace a load of it, but not a comparison with it in memory
  return offset;
}

long call_rseq(int flags) {
  return raw_syscall(SYS_rseq, reinterpret_cast<u64>(&own), kRseqBytes, static_cast<u64>(flags), RSEQ_SIGNATURE);
}

void leave(void*) { call_rseq(RSEQ_UNREGISTER); }

// Whether the kernel never writes to a thread's struct after it was unmapped. glibc keeps a thread's memory until the
// kernel has said that the thread is gone; musl's detached threads unmap their own. So without glibc a thread
// unregisters when its keys are destroyed; if it cannot learn of that, the program must have no way to make threads.
bool stays_mapped_long_enough() {
  if (&gnu_get_libc_version != nullptr || &__libc_setup_tls != nullptr) return true;
  return thread_exit::watch(leave, &own) || &pthread_create == nullptr;
}

bool is_registered() { return *const_cast<volatile int*>(&own.cpu_id) >= 0; }

bool enter() {
  if (tried == 0) {
    tried = 1;
    if (stays_mapped_long_enough()) call_rseq(0);
  }
  return is_registered();  // a handler may have registered it meanwhile
}

Rseq refused(const char* why) {
  Rseq none;
  none.why_not = why;
  return none;
}

}  // namespace

i64 rseq_decoy_offset() { return static_cast<i64>(offset_of(decoy)); }

Rseq own_rseq() {
  Rseq area = rseq();
  area.is_own = true;
  area.registered = is_registered();
  area.offset = static_cast<i64>(offset_of(own));
  area.bytes = kRseqBytes;
  return area;
}

bool enter_own_rseq(u64 offset) { return offset == offset_of(own) && enter(); }

void deny_rseq(uptr thread_pointer) {
  const auto theirs = [thread_pointer](auto& mine) {
    return thread_pointer + (reinterpret_cast<uptr>(&mine) - reinterpret_cast<uptr>(__builtin_thread_pointer()));
  };
  for (const uptr area : {theirs(own), theirs(decoy)}) *reinterpret_cast<int*>(area + RSEQ_CPU_ID) = -1;
  *reinterpret_cast<u32*>(theirs(tried)) = 1;
  const Rseq libc = rseq();
  if (libc.bytes != 0) *reinterpret_cast<int*>(thread_pointer + static_cast<u64>(libc.offset) + RSEQ_CPU_ID) = -1;
}

Rseq choose_rseq(const RseqWish& wish) {
  if (!wish.any_kernel && !kernel_restarts_sections())
    return refused("this kernel is not known to restart sections: see `freeway doctor`");
  Rseq found = rseq();
  if (found.registered) return found;
  if (found.bytes != 0) return refused("the C library could not register rseq");
  if (!wish.own) return refused("the C library registers no rseq");
  if (!stays_mapped_long_enough()) return refused("nothing tells when a thread ends (no pthread_key_create)");
  return enter() ? own_rseq() : refused("no rseq, or somebody else's");
}

}  // namespace freeway::process
