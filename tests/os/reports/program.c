// SPDX-License-Identifier: MIT
// program CASE: frees what it must not, and says before which thread of which process does so.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void wrong_in_library(char* block);

static char* volatile block;

static void announce(void) { dprintf(1, "%ld %d\n", syscall(SYS_gettid), getpid()); }

__attribute__((noinline)) void wrong(void) {
  announce();
  free(block + 8);
  __asm__ volatile("");
}

static void* in_thread(void* unused) {
  wrong();
  return unused;
}

static void in_handler(int signal) {
  (void)signal;
  wrong();
}

int main(int count, char** arguments) {
  const char* name = count > 1 ? arguments[1] : "";
  block = malloc(100);
  if (strcmp(name, "main") == 0) wrong();
  if (strcmp(name, "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
  }
  if (strcmp(name, "fork") == 0) {
    if (fork() == 0) wrong();
    else wait(NULL);
  }
  if (strcmp(name, "handler") == 0) {
    signal(SIGUSR1, in_handler);
    raise(SIGUSR1);
  }
  if (strcmp(name, "no files") == 0) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
    wrong();
  }
  if (strcmp(name, "library") == 0) {
    announce();
    wrong_in_library(block);
  }
  return 0;
}
