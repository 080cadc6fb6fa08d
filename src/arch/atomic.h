// SPDX-License-Identifier: MIT
// atomic.h: an atomic word whose memory order is in the name of the call.
//
// A thin layer over the compiler's builtins. There is no default order, so each order in Freeway was chosen, and is
// found by its name. `cas_a` has success order a and failure order relaxed; `cas_a_b` names both. All are strong; a
// failed one writes the value it saw to `expected`. The only seq_cst is in one fence.
#pragma once

#include "arch/rmw_count.h"
#include "base/compiler.h"
#include "base/integers.h"

namespace freeway {

// Whether other processors see a thread's stores in the order in which it made them.
#if defined(__x86_64__)
inline constexpr bool kStoresStayInOrder = true;
#else
inline constexpr bool kStoresStayInOrder = false;
#endif

template <class T> class Atomic {
  static_assert(sizeof(T) <= 8, "one machine word at most");

 public:
  constexpr Atomic() : value_{} {}
  constexpr explicit Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  FREEWAY_INLINE T load_relaxed() const { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
  FREEWAY_INLINE T load_acquire() const { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
  FREEWAY_INLINE void store_relaxed(T value) { __atomic_store_n(&value_, value, __ATOMIC_RELAXED); }
  FREEWAY_INLINE void store_release(T value) { __atomic_store_n(&value_, value, __ATOMIC_RELEASE); }

#define FREEWAY_RMW(name, order)                                                                                \
  FREEWAY_INLINE T exchange_##name(T value) { return count_rmw(), __atomic_exchange_n(&value_, value, order); } \
  FREEWAY_INLINE T fetch_add_##name(T value) { return count_rmw(), __atomic_fetch_add(&value_, value, order); } \
  FREEWAY_INLINE T fetch_sub_##name(T value) { return count_rmw(), __atomic_fetch_sub(&value_, value, order); } \
  FREEWAY_INLINE T fetch_or_##name(T value) { return count_rmw(), __atomic_fetch_or(&value_, value, order); }   \
  FREEWAY_INLINE T fetch_and_##name(T value) { return count_rmw(), __atomic_fetch_and(&value_, value, order); } \
  FREEWAY_INLINE bool cas_##name(T& expected, T desired) {                                                      \
    count_rmw();                                                                                                \
    return __atomic_compare_exchange_n(&value_, &expected, desired, false, order, __ATOMIC_RELAXED);            \
  }
  FREEWAY_RMW(relaxed, __ATOMIC_RELAXED)
  FREEWAY_RMW(acquire, __ATOMIC_ACQUIRE)
  FREEWAY_RMW(release, __ATOMIC_RELEASE)
  FREEWAY_RMW(acq_rel, __ATOMIC_ACQ_REL)
#undef FREEWAY_RMW

  FREEWAY_INLINE bool cas_relaxed_acquire(T& expected, T desired) {  // GCC wants success to be no weaker than failure
    count_rmw();
    return __atomic_compare_exchange_n(&value_, &expected, desired, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE);
  }
  FREEWAY_INLINE bool cas_acquire_acquire(T& expected, T desired) {
    count_rmw();
    return __atomic_compare_exchange_n(&value_, &expected, desired, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE);
  }
  FREEWAY_INLINE bool cas_acq_rel_acquire(T& expected, T desired) {
    count_rmw();
    return __atomic_compare_exchange_n(&value_, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  }

 private:
  T value_;
};

// A field that need not be atomic: only the owner of its structure touches it. The model checker's Plain reports a race
// when that is not so; this one costs nothing.
template <class T> class Plain {
 public:
  constexpr Plain() : value_{} {}
  constexpr explicit Plain(T value) : value_(value) {}
  T get() const { return value_; }
  // A plain store, too; atomic only because of get_unowned.
  void set(T value) { __atomic_store_n(&value_, value, __ATOMIC_RELAXED); }
  // For a reader that does not own the field and can use any value that it ever had: docs/optimistic-reads.md.
  T get_unowned() const { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }

 private:
  T value_;
};

// Between a thread and its own signal handlers: the compiler moves nothing across, the processor may.
inline void fence_signal() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
inline void fence_acquire() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
// Of two threads that both store, pass it and load what the other one stored, at least one sees the other's.
inline void fence_full() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

}  // namespace freeway
