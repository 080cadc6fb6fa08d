// SPDX-License-Identifier: MIT
// tsan.h: tells the thread sanitizer about orders that it cannot see. Empty in other builds.
//
// It needs no more than this: every word that threads share is an Atomic, and docs/optimistic-reads.md lists, with the
// reason, each word that a thread may read without owning it.
#pragma once

#include "base/compiler.h"
#include "base/integers.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FREEWAY_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define FREEWAY_TSAN 1
#endif

#ifdef FREEWAY_TSAN
extern "C" {
void __tsan_acquire(void* place);
void __tsan_release(void* place);
}
#endif

namespace freeway::tsan {

// One thread may map address space that another has unmapped; the kernel's own lock orders the two. We make the system
// calls ourselves, so the sanitizer does not notice them.
#ifdef FREEWAY_TSAN
inline char kernel_lock;
inline void before_unmap() { __tsan_release(&kernel_lock); }
inline void after_map() { __tsan_acquire(&kernel_lock); }
// The kernel has read an atomic word for us.
inline void after_kernel_read(uptr address) { __tsan_acquire(reinterpret_cast<void*>(address)); }
#else
FREEWAY_INLINE void before_unmap() {}
FREEWAY_INLINE void after_map() {}
FREEWAY_INLINE void after_kernel_read(uptr) {}
#endif

// Whether the program has a sanitizer that restricts its addresses (even one that this library was not built for).
extern "C" {
__attribute__((weak)) void __tsan_init();
__attribute__((weak)) void __msan_init();
}
inline bool fixes_addresses() { return &__tsan_init != nullptr || &__msan_init != nullptr; }

// Reads a word of a free block. The block may be the program's again by now, and the program writes to it; then the value
// is not used (docs/optimistic-reads.md). Hidden from the sanitizer: the program's writes are not atomic.
#ifdef FREEWAY_TSAN
__attribute__((no_sanitize("thread"), noinline)) inline u64 unseen(uptr address) {
  return *reinterpret_cast<const volatile u64*>(address);  // the sanitizer sees atomic accesses even here
}
#else
FREEWAY_INLINE u64 unseen(uptr address) {
  return __atomic_load_n(reinterpret_cast<const u64*>(address), __ATOMIC_RELAXED);
}
#endif

}  // namespace freeway::tsan
