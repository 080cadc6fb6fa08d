// SPDX-License-Identifier: MIT
//
// Every function that the library exports, as first_call.cc calls it; first_calls.py compares the names with the golden
// list. In the program that finds the library preloaded all are weak.
#ifndef FREEWAY_TESTS_FIRST_CALLS_FUNCTIONS_H
#define FREEWAY_TESTS_FIRST_CALLS_FUNCTIONS_H

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "freeway/freeway.h"
#include "freeway/heap.h"

namespace freeway_test {

struct Function {
  const char* name;
  void* (*give)(size_t bytes) = nullptr;  // a block, or null and errno
  void (*take)(void* block) = nullptr;    // a block, or null
  bool (*other)() = nullptr;              // whether its answer is right for a heap that holds nothing
  bool dies = false;                      // where `give` has no memory: there is no C++ library to throw
};

#ifdef FREEWAY_PRELOADED
#define FREEWAY_WEAK __attribute__((weak))
#else
#define FREEWAY_WEAK
#endif

extern "C" {
struct mallinfo freeway_test_mallinfo() __asm__("mallinfo");  // whose declaration warns
void cfree(void*) noexcept FREEWAY_WEAK;
void free_sized(void*, size_t) noexcept FREEWAY_WEAK;
void free_aligned_sized(void*, size_t, size_t) noexcept FREEWAY_WEAK;
size_t nallocx(size_t, int) noexcept FREEWAY_WEAK;

// The forms of operator new and delete by their names in the library. `tag` is std::nothrow, of which nothing is read.
struct Tag {};
#define NAMED(symbol) __asm__(#symbol) FREEWAY_WEAK
void* freeway_test_new(size_t) NAMED(_Znwm);
void* freeway_test_new_array(size_t) NAMED(_Znam);
void* freeway_test_new_tag(size_t, const Tag&) NAMED(_ZnwmRKSt9nothrow_t);
void* freeway_test_new_array_tag(size_t, const Tag&) NAMED(_ZnamRKSt9nothrow_t);
void* freeway_test_new_aligned(size_t, size_t) NAMED(_ZnwmSt11align_val_t);
void* freeway_test_new_array_aligned(size_t, size_t) NAMED(_ZnamSt11align_val_t);
void* freeway_test_new_aligned_tag(size_t, size_t, const Tag&) NAMED(_ZnwmSt11align_val_tRKSt9nothrow_t);
void* freeway_test_new_array_aligned_tag(size_t, size_t, const Tag&) NAMED(_ZnamSt11align_val_tRKSt9nothrow_t);
freeway_sized_block_t freeway_test_new_at_least(size_t) NAMED(__size_returning_new);
freeway_sized_block_t freeway_test_new_aligned_at_least(size_t, size_t) NAMED(__size_returning_new_aligned);
void freeway_test_delete(void*) NAMED(_ZdlPv);
void freeway_test_delete_array(void*) NAMED(_ZdaPv);
void freeway_test_delete_tag(void*, const Tag&) NAMED(_ZdlPvRKSt9nothrow_t);
void freeway_test_delete_array_tag(void*, const Tag&) NAMED(_ZdaPvRKSt9nothrow_t);
void freeway_test_delete_sized(void*, size_t) NAMED(_ZdlPvm);
void freeway_test_delete_array_sized(void*, size_t) NAMED(_ZdaPvm);
void freeway_test_delete_aligned(void*, size_t) NAMED(_ZdlPvSt11align_val_t);
void freeway_test_delete_array_aligned(void*, size_t) NAMED(_ZdaPvSt11align_val_t);
void freeway_test_delete_aligned_tag(void*, size_t, const Tag&) NAMED(_ZdlPvSt11align_val_tRKSt9nothrow_t);
void freeway_test_delete_array_aligned_tag(void*, size_t, const Tag&) NAMED(_ZdaPvSt11align_val_tRKSt9nothrow_t);
void freeway_test_delete_aligned_sized(void*, size_t, size_t) NAMED(_ZdlPvmSt11align_val_t);
void freeway_test_delete_array_aligned_sized(void*, size_t, size_t) NAMED(_ZdaPvmSt11align_val_t);
#undef NAMED

#ifdef FREEWAY_PRELOADED
#pragma weak freeway_aligned_alloc
#pragma weak freeway_aligned_alloc_at_least
#pragma weak freeway_alloc_at_least
#pragma weak freeway_audit
#pragma weak freeway_block_info
#pragma weak freeway_calloc
#pragma weak freeway_explain
#pragma weak freeway_explain_to
#pragma weak freeway_free
#pragma weak freeway_free_aligned_sized
#pragma weak freeway_free_batch
#pragma weak freeway_free_sized
#pragma weak freeway_heap_aligned_alloc
#pragma weak freeway_heap_calloc
#pragma weak freeway_heap_destroy
#pragma weak freeway_heap_malloc
#pragma weak freeway_heap_new
#pragma weak freeway_heap_realloc
#pragma weak freeway_heap_stats
#pragma weak freeway_heap_trim
#pragma weak freeway_idle
#pragma weak freeway_mallinfo
#pragma weak freeway_mallinfo2
#pragma weak freeway_malloc
#pragma weak freeway_malloc_batch
#pragma weak freeway_malloc_info
#pragma weak freeway_malloc_stats
#pragma weak freeway_malloc_trim
#pragma weak freeway_malloc_usable_size
#pragma weak freeway_mallopt
#pragma weak freeway_memalign
#pragma weak freeway_nallocx
#pragma weak freeway_posix_memalign
#pragma weak freeway_profile_dump
#pragma weak freeway_profile_start
#pragma weak freeway_profile_stop
#pragma weak freeway_pvalloc
#pragma weak freeway_realloc
#pragma weak freeway_reallocarray
#pragma weak freeway_reserve
#pragma weak freeway_set_limit
#pragma weak freeway_should_move
#pragma weak freeway_stats
#pragma weak freeway_tag
#pragma weak freeway_trim
#pragma weak freeway_trim_step
#pragma weak freeway_valloc
#pragma weak freeway_version
#endif
}

constexpr size_t kAlignment = 64;
constexpr Tag kTag;

// Ends the child of fork or vfork; the parent: whether it ended well.
inline bool child_ends(pid_t child) {
  if (child == 0) _exit(3);
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3;
}

template <class Align> void* aligned(Align* align, size_t bytes) {
  void* block = nullptr;
  const int error = align(&block, kAlignment, bytes);
  if (error != 0) errno = error;  // which it leaves alone itself
  return block;
}

// The compiler must not know the functions: it would leave out a malloc that is freed.
template <class F> F* hidden(F* function) {
  asm volatile("" : "+r"(function));
  return function;
}

#define GIVES(function, ...) \
  Function { .name = #function, .give = [](size_t n) -> void* { return hidden(&function) __VA_ARGS__; } }
#define TAKES(function, ...) \
  Function { .name = #function, .take = [](void* p) { (void)hidden(&function) __VA_ARGS__; } }
#define OTHER(function, ...)                            \
  Function {                                            \
    .name = #function, .other = []() -> bool {          \
      const auto f = hidden(&function);                 \
      return __VA_ARGS__;                               \
    }                                                   \
  }
#define BOTH(kind, function, ...) kind(function, __VA_ARGS__), kind(freeway_##function, __VA_ARGS__)
#define NEW(symbol, function, may_throw, ...)                                                                   \
  Function {                                                                                                    \
    .name = #symbol, .give = [](size_t n) -> void* { return hidden(&function) __VA_ARGS__; }, .dies = may_throw \
  }
#define DELETE(symbol, function, ...) \
  Function { .name = #symbol, .take = [](void* p) { hidden(&function) __VA_ARGS__; } }

constexpr Function kFunctions[] = {
    BOTH(GIVES, malloc, (n)),
    BOTH(GIVES, calloc, (1, n)),
    BOTH(GIVES, aligned_alloc, (kAlignment, n)),
    BOTH(GIVES, memalign, (kAlignment, n)),
    {.name = "posix_memalign", .give = [](size_t n) { return aligned(hidden(&posix_memalign), n); }},
    {.name = "freeway_posix_memalign", .give = [](size_t n) { return aligned(hidden(&freeway_posix_memalign), n); }},
    GIVES(freeway_alloc_at_least, (n).ptr),
    GIVES(freeway_aligned_alloc_at_least, (kAlignment, n).ptr),
    BOTH(GIVES, valloc, (n)),
    BOTH(GIVES, pvalloc, (n)),
    {.name = "freeway_malloc_batch",
     .give =
         [](size_t n) {
           void* blocks[3] = {};
           const size_t got = hidden(&freeway_malloc_batch)(n, 3, blocks);
           if (got == 3) hidden (&freeway_free_batch)(2, blocks + 1);
           return got == 3 ? blocks[0] : nullptr;
         }},
    // Without a block to resize: malloc. With one: it is looked up.
    {.name = "realloc",
     .give = [](size_t n) { return hidden(&realloc)(nullptr, n); },
     .take = [](void* p) { (void)!hidden(&realloc)(p, 10); }},
    {.name = "freeway_realloc",
     .give = [](size_t n) { return hidden(&freeway_realloc)(nullptr, n); },
     .take = [](void* p) { (void)!hidden(&freeway_realloc)(p, 10); }},
    {.name = "reallocarray",
     .give = [](size_t n) { return hidden(&reallocarray)(nullptr, 1, n); },
     .take = [](void* p) { (void)!hidden(&reallocarray)(p, 1, 10); }},
    {.name = "freeway_reallocarray",
     .give = [](size_t n) { return hidden(&freeway_reallocarray)(nullptr, 1, n); },
     .take = [](void* p) { (void)!hidden(&freeway_reallocarray)(p, 1, 10); }},
    BOTH(TAKES, free, (p)),
    TAKES(cfree, (p)),
    BOTH(TAKES, free_sized, (p, 40)),
    BOTH(TAKES, free_aligned_sized, (p, kAlignment, 40)),
    TAKES(freeway_free_batch, (1, &p)),
    BOTH(TAKES, malloc_usable_size, (p)),
    BOTH(OTHER, nallocx, f(100, 0) - 1 >= 99),  // 0: a paper's engine makes a block, and there was no memory
    {.name = "mallinfo", .other = [] { return hidden(&freeway_test_mallinfo)().uordblks == 0; }},
    OTHER(freeway_mallinfo, f().uordblks == 0),
    BOTH(OTHER, mallinfo2, f().uordblks == 0),
    BOTH(OTHER, malloc_info, f(0, stderr) == 0),
    BOTH(OTHER, malloc_stats, (f(), true)),
    BOTH(OTHER, malloc_trim, f(0) == 0),
    BOTH(OTHER, mallopt, f(M_MMAP_THRESHOLD, 100'000) == 1),
    OTHER(freeway_trim, f(0) == 0),
    OTHER(freeway_set_limit, (f(0, 0) | ENOMEM) == ENOMEM),
    OTHER(freeway_reserve, f(100, 10) <= 10),
    OTHER(freeway_trim_step, f(1 << 20) <= 1),
    OTHER(freeway_idle, (f(), true)),
    // Before the environment can be read there are no heaps.
    OTHER(freeway_heap_new, (f(nullptr, 0), true)),
    OTHER(freeway_heap_malloc, f(nullptr, 40) == nullptr),
    OTHER(freeway_heap_calloc, f(nullptr, 1, 40) == nullptr),
    OTHER(freeway_heap_aligned_alloc, f(nullptr, kAlignment, 40) == nullptr),
    OTHER(freeway_heap_realloc, f(nullptr, nullptr, 40) == nullptr),
    OTHER(freeway_heap_trim, f(nullptr) == 0),
    OTHER(freeway_heap_stats, f(nullptr, nullptr, 0) != 0),
    OTHER(freeway_heap_destroy, f(nullptr) != 0),
    OTHER(freeway_block_info, f("no block", nullptr, 0) == 0),
    OTHER(freeway_should_move, f("no block") == 0),
    OTHER(freeway_explain, f("no block", nullptr, 0) == FREEWAY_NOT_OURS),
    OTHER(freeway_explain_to, (f(-1, "no block"), true)),
    // Before the environment can be read there is no profile.
    OTHER(freeway_profile_start, (f(1 << 19), true)),
    OTHER(freeway_profile_stop, (f(), true)),
    OTHER(freeway_profile_dump, f(-1) == EBADF),
    OTHER(freeway_tag, f(7) == 0),
    OTHER(freeway_version, f()[0] == '0' + FREEWAY_VERSION_MAJOR),
    {.name = "freeway_stats",
     .other =
         [] {
           freeway_stats_t stats;
           hidden (&freeway_stats)(&stats, sizeof stats);
           return stats.live_blocks == 0;
         }},
    {.name = "freeway_audit",
     .other =
         [] {
           freeway_audit_t audit;
           return hidden(&freeway_audit)(&audit, sizeof audit) == 0;
         }},
    {.name = "vfork", .other = [] { return child_ends(vfork()); }},
    {.name = "fork", .other = [] { return child_ends(fork()); }},  // the C library's: nothing of ours hooks into it
    NEW(_Znwm, freeway_test_new, true, (n)),
    NEW(_Znam, freeway_test_new_array, true, (n)),
    NEW(_ZnwmRKSt9nothrow_t, freeway_test_new_tag, false, (n, kTag)),
    NEW(_ZnamRKSt9nothrow_t, freeway_test_new_array_tag, false, (n, kTag)),
    NEW(_ZnwmSt11align_val_t, freeway_test_new_aligned, true, (n, kAlignment)),
    NEW(_ZnamSt11align_val_t, freeway_test_new_array_aligned, true, (n, kAlignment)),
    NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, freeway_test_new_aligned_tag, false, (n, kAlignment, kTag)),
    NEW(_ZnamSt11align_val_tRKSt9nothrow_t, freeway_test_new_array_aligned_tag, false, (n, kAlignment, kTag)),
    NEW(__size_returning_new, freeway_test_new_at_least, true, (n).ptr),
    NEW(__size_returning_new_aligned, freeway_test_new_aligned_at_least, true, (n, kAlignment).ptr),
    DELETE(_ZdlPv, freeway_test_delete, (p)),
    DELETE(_ZdaPv, freeway_test_delete_array, (p)),
    DELETE(_ZdlPvRKSt9nothrow_t, freeway_test_delete_tag, (p, kTag)),
    DELETE(_ZdaPvRKSt9nothrow_t, freeway_test_delete_array_tag, (p, kTag)),
    DELETE(_ZdlPvm, freeway_test_delete_sized, (p, 40)),
    DELETE(_ZdaPvm, freeway_test_delete_array_sized, (p, 40)),
    DELETE(_ZdlPvSt11align_val_t, freeway_test_delete_aligned, (p, kAlignment)),
    DELETE(_ZdaPvSt11align_val_t, freeway_test_delete_array_aligned, (p, kAlignment)),
    DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, freeway_test_delete_aligned_tag, (p, kAlignment, kTag)),
    DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, freeway_test_delete_array_aligned_tag, (p, kAlignment, kTag)),
    DELETE(_ZdlPvmSt11align_val_t, freeway_test_delete_aligned_sized, (p, 40, kAlignment)),
    DELETE(_ZdaPvmSt11align_val_t, freeway_test_delete_array_aligned_sized, (p, 40, kAlignment)),
};

#undef BOTH
#undef GIVES
#undef TAKES
#undef OTHER
#undef NEW
#undef DELETE

}  // namespace freeway_test

#endif
