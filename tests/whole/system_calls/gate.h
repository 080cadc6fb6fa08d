// SPDX-License-Identifier: MIT
//
// gate.h: a gate between the allocator and the kernel, inside the process under test. A seccomp filter turns each
// system call whose instruction lies in the library's text into SIGSYS; the handler counts it, and refuses it or makes
// it itself, from this program's text, where the filter does not look. So raw system calls are caught, the C library's
// and the loader's are not, and the n-th call is the n-th exactly. It stands before the first constructor runs
// (.preinit_array), and so before the first call of the allocator.
//
// In the survey of by_function_program.cc it catches all calls of the process instead, whoever makes them.
#ifndef FREEWAY_TESTS_SYSTEM_CALLS_GATE_H
#define FREEWAY_TESTS_SYSTEM_CALLS_GATE_H

#if defined(__x86_64__)

#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "freeway/freeway.h"
#include "tests/whole/signal/support/failure.h"
#include "tests/whole/system_calls/plan.h"

extern "C" const char __start_freeway_gate[];
extern "C" const char __stop_freeway_gate[];

namespace freeway_test::gate {

// A piece of text: calls from within it are caught.
struct Text {
  uintptr_t begin = 0, end = 0;
};

// The text of the shared object that malloc is in.
inline Text text_of_library() {
  Text found;
  const auto look = [](dl_phdr_info* info, size_t, void* result) {
    const auto wanted = reinterpret_cast<uintptr_t>(&::freeway_malloc);
    for (int i = 0; i < info->dlpi_phnum; i++) {
      const auto& segment = info->dlpi_phdr[i];
      const uintptr_t begin = info->dlpi_addr + segment.p_vaddr, end = begin + segment.p_memsz;
      if (segment.p_type != PT_LOAD || wanted < begin || wanted >= end) continue;
      *static_cast<Text*>(result) = {begin, end};
      return 1;
    }
    return 0;
  };
  ::dl_iterate_phdr(look, &found);
  require(found.begin != 0, "where is the library?");
  return found;
}

// The one place from which this program's own calls are not caught, wherever the filter looks.
[[gnu::section("freeway_gate"), gnu::noinline]] inline long make_call(long number, const uint64_t (&a)[6]) {
  long result;
  register uint64_t r10 asm("r10") = a[3];
  register uint64_t r8 asm("r8") = a[4];
  register uint64_t r9 asm("r9") = a[5];
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

inline Plan plan;
inline Report own_report;
inline Report* report = &own_report;  // in memory that the driver sees
inline std::atomic<bool> refusing{false};
inline std::atomic<bool> counting{true};

// vfork and fork cannot be made in a handler: it returns to the instruction, with this in a register that the call does
// not read, and which the filter lets through.
constexpr uint32_t kLetThrough = 0x46726565;

inline bool is_fork(long number) { return number == SYS_vfork || number == SYS_fork; }

// What strict overcommit would charge for.
inline uint64_t charge_of(long number, const uint64_t (&a)[6]) {
  if (number == SYS_mmap) return (a[2] & PROT_WRITE) != 0 ? a[1] : 0;
  if (number == SYS_mprotect) return (a[2] & PROT_WRITE) != 0 ? a[1] : 0;
  if (number == SYS_mremap) return a[2] > a[1] ? a[2] - a[1] : 0;
  return 0;
}

// Whether the plan refuses this call, which is made now. Counts it.
inline bool is_refused(long number, const uint64_t (&a)[6]) {
  // In the report, so that a forked child goes on counting.
  const auto add = [](uint64_t& counter, uint64_t n) { return std::atomic_ref(counter).fetch_add(n) + n; };
  const uint64_t n = add(report->calls, 1);
  if (!refusing.load()) return false;
  if (plan.longest_map != 0 && number == SYS_mmap && a[1] > plan.longest_map) return true;
  if (plan.budget != 0) {
    const uint64_t charge = charge_of(number, a);
    if (charge != 0 && add(report->charged, charge) > plan.budget) return true;
  }
  if (plan.first == 0) return false;
  if (plan.number < 0) return n >= plan.first && n <= plan.last;
  if (plan.number != number) return false;
  const uint64_t k = add(report->of_kind, 1);
  return k >= plan.first && k <= plan.last;
}

inline void on_call(int, siginfo_t* info, void* context) {
  greg_t* const r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const long number = info->si_syscall;
  const uint64_t a[6] = {static_cast<uint64_t>(r[REG_RDI]), static_cast<uint64_t>(r[REG_RSI]),
                         static_cast<uint64_t>(r[REG_RDX]), static_cast<uint64_t>(r[REG_R10]),
                         static_cast<uint64_t>(r[REG_R8]),  static_cast<uint64_t>(r[REG_R9])};
  const size_t slot = static_cast<size_t>(number) < kBeyond ? static_cast<size_t>(number) : kBeyond;
  const bool refused = is_refused(number, a);
  if (counting.load()) {
    std::atomic_ref(report->made[slot]).fetch_add(1);
    if (refused) std::atomic_ref(report->refused[slot]).fetch_add(1);
  }
  if (refused) {
    r[REG_RAX] = -plan.error;
  } else if (is_fork(number)) {
    r[REG_RDI] = kLetThrough;
    r[REG_RIP] -= 2;  // the length of the instruction; RAX holds the number again
  } else {
    r[REG_RAX] = make_call(number, a);
  }
}

// Installs the gate before `text`; before everything that is not let through by name if `text` is empty. Skips the test
// where the kernel has no seccomp filters.
inline void install(const Text& text) {
  struct sigaction action = {};
  action.sa_sigaction = on_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSYS, &action, nullptr);

  const bool everywhere = text.begin == 0;
  const auto begin = everywhere ? reinterpret_cast<uintptr_t>(__start_freeway_gate) : text.begin;
  const auto end = everywhere ? reinterpret_cast<uintptr_t>(__stop_freeway_gate) : text.end;
  constexpr auto high = [](uintptr_t x) { return static_cast<uint32_t>(x >> 32); };
  constexpr auto low = [](uintptr_t x) { return static_cast<uint32_t>(x); };
  if (high(begin) != high(end)) ::_exit(kRunAgain);  // the text lies across a multiple of 4 GiB: elsewhere next time
  // Inside [begin, end) goes to `in`, everything else to `out`: one of the two lets the call through.
  constexpr uint8_t kAllow = 0, kLook = 1;
  const uint8_t in = everywhere ? kAllow : kLook, out = everywhere ? kLook : kAllow;
  constexpr uint32_t kIpLow = offsetof(seccomp_data, instruction_pointer), kIpHigh = kIpLow + 4;
  const auto to = [](uint8_t where, uint8_t from) {
    return static_cast<uint8_t>((where == kAllow ? 7 : 8) - from - 1);
  };
  // clang-format off
  sock_filter code[] = {
      /* 0 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      /* 1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, to(kAllow, 1)),
      /* 2 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kIpHigh),
      /* 3 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high(begin), 0, to(out, 3)),
      /* 4 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kIpLow),
      /* 5 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, low(begin), 0, to(out, 5)),
      /* 6 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, low(end), to(out, 6), to(in, 6)),
      /* 7 */ BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      /* 8 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      /* 9 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 9, 0),
      /* 10 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 8, 0),   // the C library's, which give a child a stack
      /* 11 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 7, 0),
      /* 12 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 6, 0),
      /* 13 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 5, 0),
      /* 14 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_vfork, 1, 0),
      /* 15 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fork, 0, 2),
      /* 16 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      /* 17 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kLetThrough, 1, 0),
      /* 18 */ BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      /* 19 */ BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  // clang-format on
  const sock_fprog program = {sizeof code / sizeof code[0], code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
    skip("no seccomp filters here");
}

}  // namespace freeway_test::gate

#endif  // __x86_64__
#endif
