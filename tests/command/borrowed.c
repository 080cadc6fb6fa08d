// SPDX-License-Identifier: MIT
// borrowed.c: a process whose first thread does one thing, while `freeway trim` borrows it; see inject_test.py.
//
//   borrowed WAY    says "ready", does it until a line comes on standard input, and says what came of it: "ok", or
//                   what a system call returned, which nothing should have interrupted
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ends[2];  // a pipe, or sockets: something comes out when the first thread is to go on
static int word, semaphores = -1;
static _Atomic int told, handled;
static pthread_t first;
static const char* way;

static int is(const char* name) { return strcmp(way, name) == 0; }

static void fail(const char* what) {
  printf("%s: %s\n", what, strerror(errno));
  exit(1);
}

// Waits for the line, and has the first thread go on.
static void* listen_for_it(void* nothing) {
  char c;
  while (read(0, &c, 1) == 1 && c != '\n') continue;
  told = 1;
  struct sembuf up = {0, 1, 0};
  if (write(ends[1], "x", 1) != 1) fail("write");
  __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  if (semaphores >= 0) semop(semaphores, &up, 1);
  if (is("sigwait")) pthread_kill(first, SIGUSR1);
  return nothing;
}

// What lies in the blocks is theirs alone.
static void churn(unsigned seed) {
  enum { kBlocks = 64 };
  unsigned char* blocks[kBlocks] = {0};
  size_t sizes[kBlocks] = {0};
  while (!told || seed % 1000 != 0) {
    seed = seed * 1664525 + 1013904223;
    const unsigned i = (seed >> 8) % kBlocks;
    for (size_t k = 0; k < sizes[i]; k++)
      if (blocks[i][k] != (unsigned char)(i + sizes[i])) fail("a block is damaged");
    free(blocks[i]);
    sizes[i] = 16 + (seed >> 16) % 100;
    blocks[i] = malloc(sizes[i]);
    memset(blocks[i], (int)(i + sizes[i]), sizes[i]);
  }
  for (int i = 0; i < kBlocks; i++) free(blocks[i]);
}

static void* churn_too(void* seed) {
  churn((unsigned)(uintptr_t)seed);
  return NULL;
}

// All registers, the flags that matter, and the red zone, on a stack with no room but for that.
static void hold_registers(void) {
#if defined(__x86_64__)
  const long page = sysconf(_SC_PAGESIZE);
  char* stack = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(stack, page, PROT_NONE);
  uint64_t wrong = 0;
  for (int round = 0; !told || round < 4; round++) {
    uint64_t faults = 0;
    asm volatile(
        "mov %%rsp, %%r15; mov %[stack], %%rsp; std\n\t"
        "mov $0x1111, %%rbx; mov $0x2222, %%rdx; mov $0x3333, %%rsi; mov $0x4444, %%rdi\n\t"
        "mov $0x5555, %%r8; mov $0x6666, %%r9; mov $0x7777, %%r10; mov $0x8888, %%r11; mov $0x9999, %%r12\n\t"
        "movq %%rbx, %%xmm0; movq %%rdx, %%xmm1; movq %%rsi, %%xmm7; movq %%rdi, %%xmm15\n\t"
        "mov %%r8, -8(%%rsp); mov %%r9, -64(%%rsp); mov %%r10, -128(%%rsp)\n\t"
        "mov $200000000, %%rcx\n"
        "1: dec %%rcx; jnz 1b\n\t"
        "xor %%r13, %%r13; pushfq; pop %%r14; bt $10, %%r14; setnc %%r13b; cld\n\t"
        "cmp $0x1111, %%rbx; jne 2f; cmp $0x2222, %%rdx; jne 2f; cmp $0x3333, %%rsi; jne 2f; cmp $0x4444, %%rdi\n\t"
        "jne 2f; cmp $0x5555, %%r8; jne 2f; cmp $0x6666, %%r9; jne 2f; cmp $0x7777, %%r10; jne 2f\n\t"
        "cmp $0x8888, %%r11; jne 2f; cmp $0x9999, %%r12; jne 2f\n\t"
        "movq %%xmm0, %%rcx; cmp %%rcx, %%rbx; jne 2f; movq %%xmm1, %%rcx; cmp %%rcx, %%rdx; jne 2f\n\t"
        "movq %%xmm7, %%rcx; cmp %%rcx, %%rsi; jne 2f; movq %%xmm15, %%rcx; cmp %%rcx, %%rdi; jne 2f\n\t"
        "cmp %%r9, -64(%%rsp); jne 2f; cmp %%r10, -128(%%rsp); jne 2f; jmp 3f\n"
        "2: inc %%r13\n"
        "3: mov %%r15, %%rsp; mov %%r13, %[faults]"
        : [faults] "=a"(faults)
        : [stack] "a"(stack + page + 128)
        : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
          "xmm7", "xmm15", "memory", "cc");
    wrong += faults;
  }
  if (wrong != 0) fail("a register, or the red zone, has changed");
#endif
}

// Kills for what a trim asks for and malloc does not.
static void filter(void) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const struct sock_fprog all = {sizeof(program) / sizeof(program[0]), program};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &all) != 0) fail("seccomp");
}

static void on_signal(int number) { handled += number == SIGUSR1; }

static void use_much(void) {
  enum { kBlocks = 20000 };
  static void* blocks[kBlocks];
  for (int i = 0; i < kBlocks; i++) memset(blocks[i] = malloc(1000), 1, 1000);
  for (int i = 0; i < kBlocks; i++) free(blocks[i]);
}

// Stands still until its child has read a byte, which happens beside the other threads.
static void* wait_for_child(void* nothing) {
  char c;
  if (vfork() == 0) _exit(read(0, &c, 1) == 1 ? 0 : 1);
  return nothing;
}

static void result(const char* name, long value) {
  if (value < 0) fail(name);
  puts("ok");
}

int main(int count, char** arguments) {
  way = count > 1 ? arguments[1] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  first = pthread_self();
  if ((is("recv-timed") ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) != 0) fail("pipe");
  const struct timeval hour_of_socket = {3600, 0};
  if (is("recv-timed")) setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &hour_of_socket, sizeof(hour_of_socket));
  char c;
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  if (is("sigwait")) sigprocmask(SIG_BLOCK, &usr1, NULL);
  if (is("semop")) semaphores = semget(IPC_PRIVATE, 1, 0600);
  use_much();
  if (is("strict") || is("alone")) {
    puts("ready");
    if (is("strict")) prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    const long got = read(0, &c, 1);
    if (is("strict")) syscall(SYS_exit, got == 1 ? 0 : 1);
    result("read", got);
    return 0;
  }
  pthread_t listener, others[20];
  if (is("vforks")) {
    puts("ready");
    pthread_create(&others[0], NULL, wait_for_child, NULL);
    wait_for_child(NULL);
    pthread_join(others[0], NULL);
    puts("ok");
    return 0;
  }
  pthread_create(&listener, NULL, listen_for_it, NULL);
  const int threads = is("threads") ? 20 : 0;
  for (int i = 0; i < threads; i++) pthread_create(&others[i], NULL, churn_too, (void*)(uintptr_t)(i + 1));
  if (is("filtered")) filter();
  if (is("signals")) signal(SIGUSR1, on_signal);
  if (!is("vfork")) puts("ready");

  struct timespec second = {1, 0}, hour = {3600, 0};
  struct epoll_event event = {EPOLLIN, {0}};
  const int set = epoll_create1(0);
  epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
  struct pollfd polled = {ends[0], POLLIN, 0};
  fd_set selected;
  FD_ZERO(&selected);
  FD_SET(ends[0], &selected);
  struct sembuf down = {0, -1, 0};

  if (is("read") || is("filtered")) result("read", read(ends[0], &c, 1));
  else if (is("nanosleep")) {
    while (!told) {
      if (nanosleep(&second, NULL) != 0) fail("nanosleep");
    }
    puts("ok");
  } else if (is("futex")) result("futex", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
  else if (is("futex-timed")) result("futex", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &hour, NULL, 0));
  else if (is("poll")) result("poll", poll(&polled, 1, -1));
  else if (is("poll-timed")) result("poll", poll(&polled, 1, 3600 * 1000));
  else if (is("ppoll")) result("ppoll", ppoll(&polled, 1, &hour, &usr1));
  else if (is("select")) result("select", select(ends[0] + 1, &selected, NULL, NULL, NULL));
  else if (is("recv-timed")) result("recv", recv(ends[0], &c, 1, 0));
  else if (is("epoll")) result("epoll_wait", epoll_wait(set, &event, 1, -1));
  else if (is("epoll-timed")) result("epoll_wait", epoll_wait(set, &event, 1, 3600 * 1000));
  else if (is("semop")) {
    const int got = semop(semaphores, &down, 1);
    semctl(semaphores, 0, IPC_RMID);
    result("semop", got);
  } else if (is("sigwait")) result("sigtimedwait", sigtimedwait(&usr1, NULL, &hour));
  else if (is("spin") || is("threads")) {
    churn(12345);
    puts("ok");
  } else if (is("registers")) {
    hold_registers();
    puts("ok");
  } else if (is("signals")) {
    // Each is seen by epoll_wait, as by a program that counts on that.
    long seen = 0;
    while (!told) seen += epoll_wait(set, &event, 1, -1) < 0 && errno == EINTR;
    printf("%d handled, %ld seen\n", handled, seen);
  } else if (is("vfork")) {
    const pid_t child = vfork();
    if (child == 0) {
      const char ready[] = "ready\n";
      if (write(1, ready, sizeof(ready) - 1) > 0) read(ends[0], &c, 1);
      _exit(0);
    }
    waitpid(child, NULL, 0);
    puts("ok");
  }
  pthread_join(listener, NULL);
  for (int i = 0; i < threads; i++) pthread_join(others[i], NULL);
  return 0;
}
