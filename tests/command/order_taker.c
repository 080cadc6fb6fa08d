/* SPDX-License-Identifier: MIT
 *
 * order_taker.c: looks from outside as a process with a helper thread does, one that is confined, and says what it is
 * ordered. Ends after as many orders as its argument says; it says "ready" first, with its process number. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void* take_orders(void* count) {
  const uint64_t all = ~UINT64_C(0), its = UINT64_C(1) << 32;
  struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  const struct sock_fprog filter = {1, &allow};
  prctl(PR_SET_NAME, "freeway");
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
  printf("ready %d\n", getpid());
  fflush(stdout);
  for (int left = *(int*)count; left > 0; --left) {
    siginfo_t info;
    while (syscall(SYS_rt_sigtimedwait, &its, &info, NULL, sizeof its) != 33)
      if (errno != EINTR) _exit(9); /* it was stopped for a while */
    printf("order %d %llu\n", info.si_code == SI_QUEUE, (unsigned long long)(uintptr_t)info.si_value.sival_ptr);
    fflush(stdout);
  }
  return NULL;
}

int main(int argc, char** argv) {
  int count = argc > 1 ? atoi(argv[1]) : 1;
  pthread_t thread;
  if (pthread_create(&thread, NULL, take_orders, &count) != 0) return 9;
  pthread_join(thread, NULL);
  return 4;
}
