// SPDX-License-Identifier: MIT
//
// arch/atomic.h: found before src/arch/atomic.h: the product's atomics, before each of whose operations something may
// happen.
#pragma once

#define Atomic ProductAtomic
#include_next "arch/atomic.h"
#undef Atomic

#include "tests/whole/simulator/hooks.h"

namespace freeway {

FREEWAY_INLINE void sim_point(const char* step = nullptr) {
  if (__builtin_expect(--sim_countdown <= 0, 0)) sim_event(step);
}

template <class T> class Atomic : private ProductAtomic<T> {
  using Base = ProductAtomic<T>;

 public:
  constexpr Atomic() = default;
  constexpr explicit Atomic(T value) : Base(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load_relaxed() const { return sim_point(), Base::load_relaxed(); }
  T load_acquire() const { return sim_point(), Base::load_acquire(); }
  void store_relaxed(T value) { sim_point(), Base::store_relaxed(value); }
  void store_release(T value) { sim_point(), Base::store_release(value); }

#define FREEWAY_SIMULATED(order)                                                       \
  T exchange_##order(T value) { return sim_point(), Base::exchange_##order(value); }   \
  T fetch_add_##order(T value) { return sim_point(), Base::fetch_add_##order(value); } \
  T fetch_sub_##order(T value) { return sim_point(), Base::fetch_sub_##order(value); } \
  T fetch_or_##order(T value) { return sim_point(), Base::fetch_or_##order(value); }   \
  T fetch_and_##order(T value) { return sim_point(), Base::fetch_and_##order(value); } \
  bool cas_##order(T& expected, T desired) { return sim_point(), Base::cas_##order(expected, desired); }
  FREEWAY_SIMULATED(relaxed)
  FREEWAY_SIMULATED(acquire)
  FREEWAY_SIMULATED(release)
  FREEWAY_SIMULATED(acq_rel)
#undef FREEWAY_SIMULATED
  bool cas_relaxed_acquire(T& expected, T desired) { return sim_point(), Base::cas_relaxed_acquire(expected, desired); }
  bool cas_acquire_acquire(T& expected, T desired) { return sim_point(), Base::cas_acquire_acquire(expected, desired); }
  bool cas_acq_rel_acquire(T& expected, T desired) { return sim_point(), Base::cas_acq_rel_acquire(expected, desired); }
};

}  // namespace freeway
