// SPDX-License-Identifier: MIT
// cases.c: programs that keep blocks, or lose them, each in another way: `cases NAME [LIBRARY]`. leaks_test.py knows
// what of each must be found. The same source is built with LeakSanitizer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "freeway/heap.h"

#define APART __attribute__((noinline, noclone))

struct node {
  struct node* next;
  long value;
};

static void* volatile kept;
static void* volatile others[64];
static __thread void* volatile own;
static volatile uintptr_t hidden;
static pthread_barrier_t barrier;

// Of what lay on this part of the stack nothing is left, nor of what was in registers that calls may change: how long a
// thread's last address of a block would stay in one depends on what it meets in the C library.
static APART void scrub(void) {
  volatile char room[32 << 10];
  for (size_t i = 0; i < sizeof(room); ++i) room[i] = 0;
#if defined(__x86_64__)
  __asm__ volatile(
      "xor %%eax, %%eax\n\txor %%ecx, %%ecx\n\txor %%edx, %%edx\n\txor %%esi, %%esi\n\txor %%edi, %%edi\n\t"
      "xor %%r8d, %%r8d\n\txor %%r9d, %%r9d\n\txor %%r10d, %%r10d\n\txor %%r11d, %%r11d" ::
          : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
#elif defined(__aarch64__)
  __asm__ volatile(
      "mov x0, xzr\n\tmov x1, xzr\n\tmov x2, xzr\n\tmov x3, xzr\n\tmov x4, xzr\n\tmov x5, xzr\n\tmov x6, xzr\n\t"
      "mov x7, xzr\n\tmov x8, xzr\n\tmov x9, xzr\n\tmov x10, xzr\n\tmov x11, xzr\n\tmov x12, xzr\n\tmov x13, xzr\n\t"
      "mov x14, xzr\n\tmov x15, xzr\n\tmov x16, xzr\n\tmov x17, xzr" ::
          : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
            "x17");
#endif
}

// Whether a word whose lower half a store of 32 zero bits has overwritten would point into the block. LeakSanitizer
// leaves such a word of one of its own addresses on the stack: one block of 300 MiB in 20 would be held by it.
static bool over_4_gib(volatile char* block, size_t bytes) {
  return ((uintptr_t)block - 1) >> 32 != ((uintptr_t)block + bytes) >> 32;
}

static APART void* take(size_t bytes) {
  volatile char* block = malloc(bytes);
  if (over_4_gib(block, bytes)) {
    volatile char* other = malloc(bytes);
    free((void*)block);
    block = other;
  }
  if (block == NULL) abort();
  if (bytes > 0) block[bytes - 1] = 1;
  return (void*)block;
}

// A block of which nobody knows.
static APART void lose(size_t bytes) { (void)take(bytes); }

static APART struct node* make_list(int length) {
  struct node* first = NULL;
  for (int i = 0; i < length; ++i) {
    struct node* each = take(sizeof(*each));
    each->next = first;
    each->value = i;
    first = each;
  }
  return first;
}

// --- Kept and lost, by one thread. ---

static APART void in_global(void) { kept = take(100); }
static APART void in_static(void) {
  static void* volatile place;
  if (place == NULL) place = take(100);
}
static APART void in_tls(void) { own = take(100); }
static APART void lost(void) { lose(100); }
static APART void lost_by_overwriting(void) {
  kept = take(100);
  kept = take(200);
}
static APART void interior(void) { kept = (char*)take(100) + 50; }
static APART void last_byte(void) { kept = (char*)take(112) + 111; }
static APART void behind_the_end(void) {
  others[0] = take(112);  // one more, so that what follows is no block's neighbour that is kept
  kept = (char*)take(112) + 112;
  others[1] = NULL;
}
static APART void tagged(void) { kept = (char*)take(100) + 1; }
static APART void encoded(void) { hidden = ~(uintptr_t)take(100); }
static APART void at_odd_place(void) {
  static char place[64] __attribute__((aligned(8)));
  void* block = take(100);
  memcpy(place + 4, &block, sizeof(block));
}
static APART void in_freed_block(void) {
  others[0] = take(100);  // the freed one's superblock stays in use
  void** holder = take(100);
  holder[2] = take(200);
  kept = holder;
  free(holder);
}
// Of samples the small one is hardly ever one, and rests in a cache when it is freed.
static APART void in_cached_block(void) {
  others[0] = take(100);
  void** holder = take(100);
  holder[2] = take(2 << 20);
  kept = holder;
  free(holder);
}
static APART void in_block_freed_long_ago(void) {
  void** holders[200];
  for (int i = 0; i < 200; ++i) holders[i] = take(5000);
  holders[100][3] = take(200);
  kept = holders[100];
  for (int i = 0; i < 200; ++i) free(holders[i]);
}
static APART void list_kept(void) { kept = make_list(10); }
static APART void list_lost(void) { (void)make_list(10); }
static APART void list_lost_from_the_middle(void) {
  struct node* first = make_list(10);
  kept = first;
  struct node* each = first;
  for (int i = 0; i < 3; ++i) each = each->next;
  each->next = NULL;
}
static APART void long_list(void) { kept = make_list(200000); }
static APART void ring(void) {
  struct node* first = make_list(2);
  first->next->next = first;
}
static APART void itself(void) {
  struct node* node = make_list(1);
  node->next = node;
}
static APART void zero_bytes_kept(void) { kept = take(0); }
static APART void zero_bytes_lost(void) { lose(0); }
static APART void each_size(void) {
  for (size_t bytes = 1; bytes <= 40000; bytes = bytes * 9 / 8 + 1) {
    lose(bytes);
    struct node* all = take(bytes + sizeof(*all));
    all->next = kept;
    kept = all;
  }
}
static APART void strings(void) {
  kept = strdup("kept");
  others[0] = strdup("not kept");
  others[0] = NULL;
}

// --- Large, huge and aligned blocks, and others' memory. ---

static APART void in_large(void) {
  void** large = take(1 << 20);
  large[100000] = take(100);
  kept = large + 5;
}
static APART void large_lost(void) {
  void** large = take(1 << 20);
  large[100000] = take(100);
}
static APART void end_of_huge(void) {
  const size_t words = (size_t)300 << 17;
  void** huge = take(words * 8);
  huge[words / 2] = take(100);
  kept = huge + words - 1;
}
static APART void huge_lost(void) { lose((size_t)300 << 20); }
static APART void aligned(void) {
  void* block = NULL;
  if (posix_memalign(&block, 4096, 5000) != 0) abort();
  kept = (char*)block + 4999;
  if (posix_memalign(&block, 256, 100) != 0) abort();
  if (posix_memalign(&block, 1 << 20, 100) != 0) abort();
}
static APART void moved(void) {
  kept = realloc(take(100), 10000);
  kept = realloc(kept, (size_t)1 << 20);
  void* other = realloc(take(100), 300000);
  (void)other;
}
static APART void in_mapping(void) {
  void* volatile* mapping = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mapping[1000] = take(100);
}
static APART void in_hidden_mapping(void) {
  void* volatile* mapping = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mapping[1000] = take(100);
  mprotect((void*)mapping, 65536, PROT_NONE);
}
// Heaps of one's own, a small block and a large one of each of which has the only pointer to a block of malloc. The
// library may have been preloaded.
static APART freeway_heap_t make_heap(void) {
  __typeof__(&freeway_heap_new) make = (__typeof__(make))dlsym(RTLD_DEFAULT, "freeway_heap_new");
  __typeof__(&freeway_heap_malloc) take_of = (__typeof__(take_of))dlsym(RTLD_DEFAULT, "freeway_heap_malloc");
  if (make == NULL || take_of == NULL) abort();
  freeway_heap_t heap = make(NULL, 0);
  void** small = take_of(heap, 100);
  void** large = take_of(heap, 1 << 20);
  if (small == NULL || large == NULL) abort();
  small[5] = take(100);
  large[100000] = take(300);
  return heap;
}
static APART void in_own_heap(void) {
  kept = make_heap();
  lose(200);
}
static APART void in_destroyed_heap(void) {
  __typeof__(&freeway_heap_destroy) destroy = (__typeof__(destroy))dlsym(RTLD_DEFAULT, "freeway_heap_destroy");
  if (destroy == NULL || destroy(make_heap()) != 0) abort();
}
static APART void after_trim(void) {
  list_kept();
  list_lost();
  void* many[2000];
  for (int i = 0; i < 2000; ++i) many[i] = take(1000);
  for (int i = 0; i < 2000; ++i) free(many[i]);
  memset(many, 0, sizeof(many));
  malloc_trim(0);
}
static APART void in_library(const char* path) {
  void* library = dlopen(path, RTLD_NOW);
  void (*keep)(void*) = library == NULL ? NULL : (void (*)(void*))dlsym(library, "library_keep");
  if (keep == NULL) abort();
  keep(take(100));
  lose(200);
}
static APART void files(void) {
  FILE* file = fopen("/dev/null", "w");
  if (file == NULL || fputs("text", file) < 0) abort();
  setenv("CASES_VARIABLE", "a value", 1);
}

// --- Threads. ---

static void* keep_on_stack(void* argument) {
  void* volatile block = take(100);
  lose(200);
  scrub();
  pthread_barrier_wait(&barrier);
  if (argument != NULL) return NULL;
  for (;;) pause();
  return block;
}
static void* keep_in_tls(void* argument) {
  own = take(100);
  return keep_on_stack(argument);
}
static void* keep_as_specific(void* argument) {
  pthread_key_t key;
  pthread_key_create(&key, NULL);
  pthread_setspecific(key, take(100));
  return keep_on_stack(argument);
}
static APART pthread_t start(void* (*function)(void*), int ends) {
  static char anything;
  pthread_t thread;
  if (pthread_barrier_init(&barrier, NULL, 2) != 0 ||
      pthread_create(&thread, NULL, function, ends ? &anything : NULL) != 0)
    abort();
  pthread_barrier_wait(&barrier);
  return thread;
}
static APART void running_thread(void) { start(keep_on_stack, 0); }
static APART void running_thread_s_tls(void) { start(keep_in_tls, 0); }
static APART void running_thread_s_specific(void) { start(keep_as_specific, 0); }
static APART void ended_thread(void) { pthread_join(start(keep_on_stack, 1), NULL); }
static APART void ended_thread_s_tls(void) { pthread_join(start(keep_in_tls, 1), NULL); }
static APART void ended_threads(void) {
  for (int i = 0; i < 20; ++i) pthread_join(start(keep_in_tls, 1), NULL);
}
static void* exit_here(void* argument) {
  void* volatile block = take(100);
  lose(200);
  scrub();
  exit((int)(intptr_t)argument);
  return block;
}
static ucontext_t elsewhere, thread_s_own;
static void wait_elsewhere(void) {
  scrub();
  pthread_barrier_wait(&barrier);
  for (;;) pause();
}
static void* go_elsewhere(void* argument) {
  void* volatile block = take(100);
  scrub();  // contexts hold registers
  getcontext(&elsewhere);
  elsewhere.uc_stack.ss_size = 128 << 10;
  elsewhere.uc_stack.ss_sp = kept = take(elsewhere.uc_stack.ss_size);
  makecontext(&elsewhere, wait_elsewhere, 0);
  scrub();
  swapcontext(&thread_s_own, &elsewhere);
  (void)argument;
  return block;
}
// Which part of its own stack is in use is not known: so all of it counts.
static APART void thread_on_other_stack(void) { start(go_elsewhere, 0); }
static APART void exit_in_thread(void) {
  pthread_t thread;
  void* volatile block = take(300);
  if (pthread_create(&thread, NULL, exit_here, NULL) != 0) abort();
  for (;;) pause();
  (void)block;
}

// --- Stacks. ---

static APART void on_stack(void) {
  void* volatile block = take(100);
  scrub();
  exit(block == NULL);
}
static ucontext_t other, back;
static void exit_on_other_stack(void) {
  void* volatile block = take(100);
  scrub();
  exit(block == NULL);
}
// The main stack's part that is in use is not known: so all of it counts.
static APART void other_stack(void) {
  void* volatile block = take(300);
  getcontext(&other);
  other.uc_stack.ss_size = 128 << 10;
  other.uc_stack.ss_sp = kept = take(other.uc_stack.ss_size);
  other.uc_link = &back;
  makecontext(&other, exit_on_other_stack, 0);
  swapcontext(&back, &other);
  (void)block;
}

// --- Processes. ---

static APART void child(void) {
  kept = take(100);
  const pid_t process = fork();
  if (process == 0) {
    lose(300);
    scrub();
    exit(0);
  }
  waitpid(process, NULL, 0);
}
static APART void no_exit(void) {
  lose(100);
  _exit(0);
}
static APART void failing(void) {
  lose(100);
  exit(3);
}
static APART void killed(void) {
  lose(100);
  raise(SIGTERM);
}

// --- For who looks at a running process: it says that it is there. ---

static APART void say(void) {
  puts("ready");
  fflush(stdout);
}
static APART void wait_with_list(void) {
  list_lost();
  list_kept();
  scrub();
  say();
  for (;;) pause();
}
// Nothing but a register has the block's address.
static APART void wait_with_register(void) {
  lose(200);
  hidden = ~(uintptr_t)take(100);
  scrub();
  say();
  uintptr_t block = ~hidden;
#if defined(__x86_64__)
  __asm__ volatile("mov %0, %%r15\n\txor %0, %0\n\t1: pause\n\tjmp 1b" : "+r"(block) : : "r15", "memory");
#else
  __asm__ volatile("mov x25, %0\n\tmov %0, xzr\n\t1: yield\n\tb 1b" : "+r"(block) : : "x25", "memory");
#endif
}
static APART void wait_with_many(void) {
  for (int i = 0; i < 20000; ++i) lose(1000);
  for (int i = 0; i < 20000; ++i) {
    struct node* each = take(1000);
    each->next = kept;
    kept = each;
  }
  scrub();
  say();
  for (;;) pause();
}

#define CASE(name) {#name, name}
// clang-format off: a table
static const struct {
  const char* name;
  void (*function)(void);
} cases[] = {
    CASE(in_global), CASE(in_static), CASE(in_tls), CASE(lost), CASE(lost_by_overwriting), CASE(interior),
    CASE(last_byte), CASE(behind_the_end), CASE(tagged), CASE(encoded), CASE(at_odd_place), CASE(in_freed_block),
    CASE(in_cached_block), CASE(in_block_freed_long_ago), CASE(list_kept), CASE(list_lost),
    CASE(list_lost_from_the_middle), CASE(long_list), CASE(ring), CASE(itself), CASE(zero_bytes_kept),
    CASE(zero_bytes_lost), CASE(each_size), CASE(strings), CASE(in_large), CASE(large_lost), CASE(end_of_huge),
    CASE(huge_lost), CASE(aligned), CASE(moved), CASE(in_mapping), CASE(in_hidden_mapping), CASE(in_own_heap),
    CASE(in_destroyed_heap), CASE(after_trim), CASE(files), CASE(running_thread), CASE(running_thread_s_tls),
    CASE(running_thread_s_specific), CASE(ended_thread), CASE(ended_thread_s_tls), CASE(ended_threads),
    CASE(thread_on_other_stack), CASE(exit_in_thread), CASE(on_stack), CASE(other_stack), CASE(child), CASE(no_exit),
    CASE(failing), CASE(killed), CASE(wait_with_list), CASE(wait_with_register), CASE(wait_with_many)};
// clang-format on

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  free(take(1));  // of a program that carries the library in it, the first call begins the profile, and is not in it
  if (strcmp(name, "in_library") == 0 && argc > 2) {
    in_library(argv[2]);
    scrub();
    return 0;
  }
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    if (strcmp(cases[i].name, name) != 0) continue;
    cases[i].function();
    scrub();
    return 0;
  }
  return 2;
}
