/* SPDX-License-Identifier: MIT
 *
 * order_taker.c: looks from outside as a process with a helper thread does, and says what it is ordered. Ends after as many
 * orders as its argument says; it says "ready" first, with its process number. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const uint64_t all = ~UINT64_C(0), its = UINT64_C(1) << 32;
  int left = argc > 1 ? atoi(argv[1]) : 1;
  prctl(PR_SET_NAME, "freeway");
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
  printf("ready %d\n", getpid());
  fflush(stdout);
  for (; left > 0; --left) {
    siginfo_t info;
    while (syscall(SYS_rt_sigtimedwait, &its, &info, NULL, sizeof its) != 33)
      if (errno != EINTR) return 9; /* it was stopped for a while */
    printf("order %d %llu\n", info.si_code == SI_QUEUE, (unsigned long long)(uintptr_t)info.si_value.sival_ptr);
    fflush(stdout);
  }
  return 4;
}
