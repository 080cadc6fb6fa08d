// SPDX-License-Identifier: MIT
#include "os/signal_action.h"

#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "os/syscall.h"

namespace freeway {
namespace {

constexpr u64 kSetBytes = 8;
constexpr u64 kPipeSignal = u64{1} << (SIGPIPE - 1);

#if defined(__x86_64__)
// A handler returns here. x86-64's kernel must be given the address, or it delivers nothing. Unwinders know these two
// instructions.
__attribute__((naked, noinline)) void restore() { asm volatile("mov $15, %rax\n\tsyscall"); }
#endif

}  // namespace

bool signal_action(int number, const SignalAction* change, SignalAction* old) {
  SignalAction action;
  if (change != nullptr) action = *change;
#if defined(__x86_64__)
  if (action.handler > 1 && (action.flags & SignalAction::kRestorer) == 0) {
    action.flags |= SignalAction::kRestorer;
    action.restorer = reinterpret_cast<u64>(&restore);
  }
#endif
  return raw_syscall(SYS_rt_sigaction, static_cast<u64>(number), change != nullptr ? reinterpret_cast<u64>(&action) : 0,
                     reinterpret_cast<u64>(old), kSetBytes) == 0;
}

bool send_again(int number, const siginfo_t* info) {
  const auto process = static_cast<u64>(raw_syscall(SYS_getpid)), thread = static_cast<u64>(raw_syscall(SYS_gettid));
  if (info == nullptr) return raw_syscall(SYS_tgkill, process, thread, static_cast<u64>(number)) == 0;
  return raw_syscall(SYS_rt_tgsigqueueinfo, process, thread, static_cast<u64>(number), reinterpret_cast<u64>(info)) ==
         0;
}

// The kernel promises the frame's layout; unwinders rely on it, too.
bool are_from_kernel(const siginfo_t* info, const void* ucontext) {
  const auto first = reinterpret_cast<uptr>(info), second = reinterpret_cast<uptr>(ucontext);
#if defined(__x86_64__)
  constexpr uptr kContextBytes =
      offsetof(ucontext_t, uc_sigmask) + kSetBytes;  // the kernel's; the C library's is longer
  return first - second == kContextBytes && second != 0;
#else
  return second - first == sizeof(siginfo_t) && first != 0;
#endif
}

HeldPipeSignal::HeldPipeSignal() {
  held_ = raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, reinterpret_cast<u64>(&kPipeSignal),
                      reinterpret_cast<u64>(&before_), kSetBytes) == 0;
  // A signal that is not blocked does not wait for this thread.
  if (!held_ || (before_ & kPipeSignal) == 0) return;
  u64 waiting = 0;
  raw_syscall(SYS_rt_sigpending, reinterpret_cast<u64>(&waiting), kSetBytes);
  was_waiting_ = (waiting & kPipeSignal) != 0;
}

HeldPipeSignal::~HeldPipeSignal() {
  if (held_) raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<u64>(&before_), 0, kSetBytes);
}

// The kernel hands out a thread's signals before the process's, so this takes the write's.
void HeldPipeSignal::drop() {
  if (!held_ || was_waiting_) return;
  const timespec at_once{};
  raw_syscall(SYS_rt_sigtimedwait, reinterpret_cast<u64>(&kPipeSignal), 0, reinterpret_cast<u64>(&at_once), kSetBytes);
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
