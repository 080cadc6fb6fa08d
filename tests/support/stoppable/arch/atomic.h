// SPDX-License-Identifier: MIT
//
// stoppable/arch/atomic.h: found before src/arch/atomic.h by tests that let something happen before any of a thread's
// stores (or read-modify-writes): that the thread ends for ever, or that another thread does something.
//
// The shipped code above it is compiled unchanged.
#pragma once

#include <functional>
#include <utility>

#include "base/compiler.h"
#include "base/integers.h"
#include "tests/support/stopped.h"

namespace freeway::test {

inline u64 stores_left = ~u64{0};
inline std::function<void()> at_store;

inline void about_to_store() {
  if (stores_left-- != 0) return;
  stores_left = ~u64{0};
  at_store();
}

// Runs `f`, and `other` before f's store number `n`, counted from 0. False if f has fewer: then only f has run.
template <class F> bool interrupted_before_store(u64 n, F&& f, std::function<void()> other) {
  at_store = std::move(other);
  stores_left = n;
  f();
  const bool was = stores_left > n;
  stores_left = ~u64{0};
  return was;
}

// Runs `f` as a thread that ends before its store number `n`; false if it has fewer.
template <class F> bool ended_before_store(u64 n, F&& f) {
  try {
    interrupted_before_store(n, f, [] { throw Stopped(); });
  } catch (const Stopped&) { return true; }
  return false;
}

}  // namespace freeway::test

namespace freeway {

template <class T> class Atomic {
 public:
  constexpr Atomic() : value_{} {}
  constexpr explicit Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load_relaxed() const { return value_; }
  T load_acquire() const { return value_; }
  void store_relaxed(T value) { store(value); }
  void store_release(T value) { store(value); }

#define FREEWAY_TEST_RMW(order)                                                                          \
  T exchange_##order(T value) { return change([=](T) { return value; }); }                               \
  T fetch_add_##order(T value) { return change([=](T old) { return static_cast<T>(old + value); }); }    \
  T fetch_sub_##order(T value) { return change([=](T old) { return static_cast<T>(old - value); }); }    \
  T fetch_or_##order(T value) { return change([=](T old) { return static_cast<T>(old | value); }); }     \
  T fetch_and_##order(T value) { return change([=](T old) { return static_cast<T>(old & value); }); }    \
  bool cas_##order(T& expected, T desired) { return compare(expected, desired); }
  FREEWAY_TEST_RMW(relaxed)
  FREEWAY_TEST_RMW(acquire)
  FREEWAY_TEST_RMW(release)
  FREEWAY_TEST_RMW(acq_rel)
#undef FREEWAY_TEST_RMW
  bool cas_relaxed_acquire(T& expected, T desired) { return compare(expected, desired); }
  bool cas_acquire_acquire(T& expected, T desired) { return compare(expected, desired); }
  bool cas_acq_rel_acquire(T& expected, T desired) { return compare(expected, desired); }

 private:
  void store(T value) {
    test::about_to_store();
    value_ = value;
  }
  template <class F> T change(F&& next) {
    test::about_to_store();
    const T before = value_;
    value_ = next(before);
    return before;
  }
  bool compare(T& expected, T desired) {
    test::about_to_store();
    if (value_ == expected) {
      value_ = desired;
      return true;
    }
    expected = value_;
    return false;
  }

  T value_;
};

// Fields that their owner alone sees: whoever ends takes his view along.
template <class T> class Plain {
 public:
  constexpr Plain() : value_{} {}
  constexpr explicit Plain(T value) : value_(value) {}
  T get() const { return value_; }
  void set(T value) { value_ = value; }
  T get_unowned() const { return value_; }

 private:
  T value_;
};

inline void fence_signal() {}
inline void fence_acquire() {}
inline void fence_full() {}

}  // namespace freeway
