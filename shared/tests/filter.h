// SPDX-License-Identifier: MIT
//
// filter.h: what the kernel answers to one kind of madvise from now on, in this thread, its children, and what they
// execute.
#ifndef FREEWAY_TESTS_SHARED_FILTER_H
#define FREEWAY_TESTS_SHARED_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>

namespace freeway_test {

inline constexpr uint32_t kRemove = 9, kPopulateWrite = 23;  // MADV_REMOVE; MADV_POPULATE_WRITE, since Linux 5.14

constexpr uint32_t refuse_with(int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); }

// `answer`: refuse_with(error), or SECCOMP_RET_TRAP: SIGSYS. `bytes`: only of ranges of this length; 0: of any. False
// where the kernel has no filters.
inline bool answer_madvise(uint32_t advice, uint32_t answer, uint32_t bytes = 0) {
  // Of an argument the lower half: processors with the lower one first.
  constexpr auto argument = [](size_t i) {
    return static_cast<uint32_t>(offsetof(seccomp_data, args) + i * sizeof(uint64_t));
  };
  const uint8_t otherwise = bytes == 0 ? 0 : 1;  // of another length: one further
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(2)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, advice, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(1)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bytes, 0, otherwise),
      BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof code / sizeof code[0], code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace freeway_test
#endif
