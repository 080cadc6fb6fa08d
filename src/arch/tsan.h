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

}  // namespace freeway::tsan
