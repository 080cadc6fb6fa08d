// SPDX-License-Identifier: MIT
// traced_program.cc: a process that writes a dump of itself, as the library's profiler would: one stack, outer → middle
// → inner → record, at an allocation of 10 blocks of 1000 bytes, 4 of which live.
//
// Built twice: with frame pointers, it walks them; without (WITH_COPY), it writes its registers and a copy of its
// stack.
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "traced_library.h"

namespace {

const char* program_path = "";

#ifdef WITH_COPY

void write_registers(const ucontext_t& context) {
#if defined(__x86_64__)
  const auto& all = context.uc_mcontext.gregs;
  std::printf(
      "#copy 7 arch=x86_64 pc=0x%llx sp=0x%llx fp=0x%llx rbx=0x%llx r12=0x%llx r13=0x%llx r14=0x%llx r15=0x%llx\n",
      all[REG_RIP], all[REG_RSP], all[REG_RBP], all[REG_RBX], all[REG_R12], all[REG_R13], all[REG_R14], all[REG_R15]);
#else
  const auto& all = context.uc_mcontext;
  std::printf("#copy 7 arch=aarch64 pc=0x%llx sp=0x%llx lr=0x%llx", all.pc, all.sp, all.regs[30]);
  for (int i = 19; i <= 29; ++i) std::printf(" x%d=0x%llx", i, all.regs[i]);
  std::printf("\n");
#endif
}

std::uintptr_t stack_pointer(const ucontext_t& context) {
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RSP]);
#else
  return context.uc_mcontext.sp;
#endif
}

// All that lies below the environment are frames.
__attribute__((noinline)) void write_sample() {
  ucontext_t context;
  getcontext(&context);
  std::printf("4: 4000 [10: 10000] @ %p\n#@ tag=7 age_ms=1500 lifetime_ms=20 copy=7\n", __builtin_return_address(0));
  write_registers(context);
  const auto* byte = reinterpret_cast<const unsigned char*>(stack_pointer(context));
  const auto* const end = reinterpret_cast<const unsigned char*>(environ);
  constexpr int kLines = 160, kBytes = 64;  // aarch64: the ucontext_t alone is 4.5 KiB
  for (int line = 0; line < kLines && byte < end; ++line) {
    std::printf("#copy+ ");
    for (int i = 0; i < kBytes && byte < end; ++i) std::printf("%02x", *byte++);
    std::printf("\n");
  }
}

#else

__attribute__((noinline)) void write_sample() {
  std::printf("4: 4000 [10: 10000] @");
  struct Frame {
    const Frame* caller;
    const void* return_address;
  };
  // main's caller, in the C library, may have none: the walk ends there.
  const auto* frame = static_cast<const Frame*>(__builtin_frame_address(0));
  for (int depth = 0; depth < 6 && frame != nullptr; ++depth) {
    std::printf(" %p", frame->return_address);
    if (frame->caller <= frame) break;
    frame = frame->caller;
  }
  std::printf("\n#@ tag=7 age_ms=1500 lifetime_ms=20\n");
}

#endif

void write_maps() {
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[4096];
  while (std::fgets(line, sizeof(line), maps) != nullptr) std::fputs(line, stdout);
  std::fclose(maps);
}

__attribute__((noinline)) void record(int) {
  std::printf("heap profile: 4: 4000 [10: 10000] @ heap_v2/524288\n# freeway-profile 1\n");
  std::printf(
      "# pid=%d time_ns=1700000000000000000 program=%s mode=rseq interval=524288 samples=10 lost_stacks=0 "
      "lost_blocks=0\n",
      getpid(), program_path);
  write_sample();
  std::printf("MAPPED_LIBRARIES:\n");
  write_maps();
  std::fflush(stdout);
}

volatile int returned;  // so that each function goes on behind its call, which else would be a jump

template <class Number> struct Chain {
  __attribute__((noinline)) static Number inner(Number depth) {
    through_library(record, depth);
    returned = 1;
    return depth + 1;
  }
};

inline __attribute__((always_inline)) int inlined(int depth) {
  const int inner = Chain<int>::inner(depth);
  returned = 2;
  return inner + 1;
}

__attribute__((noinline)) int middle(int depth) {
  const int inner = inlined(depth);
  returned = 3;
  return inner + 2;
}

__attribute__((noinline)) int outer(int depth) {
  const int inner = middle(depth);
  returned = 4;
  return inner + 3;
}

}  // namespace

int main(int, char** argv) {
  program_path = realpath(argv[0], nullptr);
  const bool is_right = outer(1) == 8;
  returned = 5;
  return is_right ? 0 : 1;
}
