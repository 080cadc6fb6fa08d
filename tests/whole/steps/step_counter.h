// SPDX-License-Identifier: MIT
//
// StepCounter: executes a call one instruction at a time (the processor's trap flag) and counts those of the library
// that provides malloc, apart from the C library's that it calls (memcpy, memset), and its system calls.
#ifndef FREEWAY_TESTS_STEPS_STEP_COUNTER_H
#define FREEWAY_TESTS_STEPS_STEP_COUNTER_H
#if defined(__x86_64__)

#include <dlfcn.h>
#include <link.h>
#include <ucontext.h>

#include <csignal>
#include <cstdint>
#include <cstring>

#include "tests/whole/signal/support/failure.h"

namespace freeway_test {

struct Steps {
  uint64_t own = 0;  // instructions of the library
  uint64_t system_calls = 0;
};

class StepCounter {
 public:
  static void install() {
    ::dl_iterate_phdr(find_text, ::dlsym(RTLD_DEFAULT, "malloc"));
    require(text_end_ > text_begin_, "where the text of malloc's library is");
    struct sigaction action = {};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGTRAP, &action, nullptr);
  }

  // Calls f(), stepping.
  template <class F> static Steps count(F&& f) {
    steps_ = {};
    // Below the red zone, in which the compiler may keep something.
    asm volatile("subq $128, %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\taddq $128, %%rsp" ::: "memory", "cc");
    f();
    asm volatile("subq $128, %%rsp\n\tpushfq\n\tandq $-257, (%%rsp)\n\tpopfq\n\taddq $128, %%rsp" ::: "memory", "cc");
    return steps_;
  }

 private:
  // In front of each instruction but the first.
  static void on_trap(int, siginfo_t*, void* context) {
    const auto ip = static_cast<uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
    if (ip < text_begin_ || ip >= text_end_) return;
    ++steps_.own;
    const auto* bytes = reinterpret_cast<const unsigned char*>(ip);
    steps_.system_calls += bytes[0] == 0x0f && bytes[1] == 0x05;
  }

  static int find_text(dl_phdr_info* info, size_t, void* of) {
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
      const ElfW(Phdr)& segment = info->dlpi_phdr[i];
      const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      if (reinterpret_cast<uintptr_t>(of) - begin >= segment.p_memsz) continue;
      text_begin_ = begin;
      text_end_ = begin + segment.p_memsz;
    }
    return 0;
  }

  static inline uintptr_t text_begin_ = 0, text_end_ = 0;
  static inline Steps steps_;
};

}  // namespace freeway_test
#endif  // __x86_64__
#endif
