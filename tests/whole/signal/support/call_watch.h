// SPDX-License-Identifier: MIT
//
// Which function of the allocator a thread is in: enter_allocator and leave_allocator stand around each call of a test.
// `inside_allocator` is non-zero exactly then, so a handler can tell what it interrupted; an observer is told when a
// thread goes in, by which function, and when it comes out. Calls that handlers make inside a call are not told.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_CALL_WATCH_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_CALL_WATCH_H

#include <atomic>
#include <cstddef>

namespace freeway_test {

enum class Call : unsigned {
  kUnnamed,  // none that anybody watches
  kMalloc,
  kFree,
  kRealloc,
  kCalloc,
  kAlignedAlloc,
  kPosixMemalign,
  kUsableSize,
  kTrim,
  kStats,
  kMallocBatch,
  kFreeBatch,
  kReserve,
  kSetLimit,
  kOthers
};
constexpr size_t kCallCount = 15;
constexpr const char* kCallNames[kCallCount] = {"none",
                                                "malloc",
                                                "free",
                                                "realloc",
                                                "calloc",
                                                "aligned_alloc",
                                                "posix_memalign",
                                                "malloc_usable_size",
                                                "malloc_trim",
                                                "freeway_stats, mallinfo2",
                                                "freeway_malloc_batch",
                                                "freeway_free_batch",
                                                "freeway_reserve",
                                                "freeway_set_limit",
                                                "other names, new, delete"};

// A depth: handlers raise and lower it too, and leave it as they found it.
constinit inline thread_local volatile int inside_allocator = 0;

struct CallObserver {
  void (*entered)(Call) = nullptr;
  void (*left)() = nullptr;
};
constinit inline CallObserver call_observer;

inline void enter_allocator(Call call = Call::kUnnamed) {
  if (inside_allocator == 0 && call_observer.entered != nullptr) call_observer.entered(call);
  inside_allocator = inside_allocator + 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
inline void leave_allocator() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  inside_allocator = inside_allocator - 1;
  if (inside_allocator == 0 && call_observer.left != nullptr) call_observer.left();
}

}  // namespace freeway_test
#endif
