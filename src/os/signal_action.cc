// SPDX-License-Identifier: MIT
#include "os/signal_action.h"

#include <string.h>
#include <ucontext.h>

#include "os/syscall.h"

namespace freeway {
namespace {

constexpr u64 kSetBytes = 8;

#if defined(__x86_64__)
constexpr u64 kRestorer = 0x04000000;  // SA_RESTORER: without it the kernel delivers nothing here
// What a handler returns to. Unwinders know these two instructions.
__attribute__((naked, noinline)) void restore() { asm volatile("mov $15, %rax\n\tsyscall"); }
#endif

}  // namespace

bool signal_action(int number, const SignalAction* change, SignalAction* old) {
  SignalAction action;
  if (change != nullptr) action = *change;
#if defined(__x86_64__)
  if (action.handler > 1 && (action.flags & kRestorer) == 0) {
    action.flags |= kRestorer;
    action.restorer = reinterpret_cast<u64>(&restore);
  }
#endif
  return raw_syscall(SYS_rt_sigaction, static_cast<u64>(number), change != nullptr ? reinterpret_cast<u64>(&action) : 0,
                     reinterpret_cast<u64>(old), kSetBytes) == 0;
}

bool send_again(int number, const siginfo_t& info) {
  const long process = raw_syscall(SYS_getpid), thread = raw_syscall(SYS_gettid);
  return raw_syscall(SYS_rt_tgsigqueueinfo, static_cast<u64>(process), static_cast<u64>(thread), static_cast<u64>(number),
                     reinterpret_cast<u64>(&info)) == 0;
}

FaultContext fault_context(const void* ucontext) {
  const auto& machine = static_cast<const ucontext_t*>(ucontext)->uc_mcontext;
#if defined(__x86_64__)
  constexpr u64 kWrite = 2;  // of a page fault's error code
  const u64 error = static_cast<u64>(machine.gregs[REG_ERR]);
  return {static_cast<uptr>(machine.gregs[REG_RIP]), (error & kWrite) != 0 ? 'w' : 'r'};
#else
  constexpr u32 kSyndrome = 0x45535201;  // ESR_MAGIC
  constexpr u64 kWrite = 1 << 6;
  FaultContext found{machine.pc, '?'};
  const auto* reserved = reinterpret_cast<const unsigned char*>(&machine.__reserved);
  for (std::size_t at = 0; at + 16 <= sizeof(machine.__reserved);) {
    u32 head[2];
    memcpy(head, reserved + at, sizeof(head));
    if (head[0] == 0 || head[1] < sizeof(head)) break;
    if (head[0] == kSyndrome) {
      u64 syndrome;
      memcpy(&syndrome, reserved + at + sizeof(head), sizeof(syndrome));
      found.access = (syndrome & kWrite) != 0 ? 'w' : 'r';
    }
    at += head[1];
  }
  return found;
#endif
}

}  // namespace freeway
