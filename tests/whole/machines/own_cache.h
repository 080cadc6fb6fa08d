// SPDX-License-Identifier: MIT
//
// own_cache.h: whether a CPU has a cache of its own, in the engines that give it one.
#ifndef FREEWAY_TESTS_MACHINES_OWN_CACHE_H
#define FREEWAY_TESTS_MACHINES_OWN_CACHE_H

#include "arch/rseq_layout.h"
#include "cache/hot.h"

#if defined(FREEWAY_TEST_LFMALLOC)
extern "C" void* freeway_lfmalloc_heaps[RSEQ_IDS];
#endif

namespace freeway::test {

#if defined(FREEWAY_TEST_FREEWAY)
constexpr bool kHasOwnCaches = true;
inline bool has_own_cache(unsigned cpu) {
  return reinterpret_cast<u64>(freeway_hot.slab_of[cpu].load_relaxed()) != freeway_hot.null_slab;
}
#elif defined(FREEWAY_TEST_LFMALLOC)
constexpr bool kHasOwnCaches = true;
inline bool has_own_cache(unsigned cpu) { return freeway_lfmalloc_heaps[cpu] != nullptr; }
#else
constexpr bool kHasOwnCaches = false;
inline bool has_own_cache(unsigned) { return false; }
#endif

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_MACHINES_OWN_CACHE_H
