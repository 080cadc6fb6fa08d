// SPDX-License-Identifier: MIT
// tsan.h: what the thread sanitizer is told of orders that it cannot see. Nothing at all in other builds.
//
// It needs no more than this: every word that threads share is an Atomic, and what may be read by somebody who owns
// nothing is listed, with the reason, in docs/optimistic-reads.md.
#pragma once

#include "base/compiler.h"

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

// Address space that one thread unmaps may be mapped by another: between the two lies the kernel's own lock. The system
// calls are ours, so the sanitizer does not notice them.
#ifdef FREEWAY_TSAN
inline char kernel_lock;
inline void before_unmap() { __tsan_release(&kernel_lock); }
inline void after_map() { __tsan_acquire(&kernel_lock); }
#else
FREEWAY_INLINE void before_unmap() {}
FREEWAY_INLINE void after_map() {}
#endif

}  // namespace freeway::tsan
