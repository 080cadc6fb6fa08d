// SPDX-License-Identifier: MIT
//
// stoppable/arch/atomic.h: found before src/arch/atomic.h by tests that end a thread for ever before any of its stores.
//
// The shipped code above it is compiled unchanged. stop_before_store(n) lets n stores (or read-modify-writes) happen and
// throws Stopped instead of the next one.
#pragma once

#include "base/compiler.h"
#include "base/integers.h"
#include "unit/stopped.h"

namespace freeway::test {

inline u64 stores_left = ~u64{0};

inline void about_to_store() {
  if (stores_left-- == 0) {
    stores_left = ~u64{0};
    throw Stopped();
  }
}

// Runs `f` as a thread that ends before its store number `n`, counted from 0; false if it has fewer.
template <class F>
bool ended_before_store(u64 n, F&& f) {
  stores_left = n;
  try {
    f();
  } catch (const Stopped&) {
    return true;
  }
  stores_left = ~u64{0};
  return false;
}

}  // namespace freeway::test

namespace freeway {

template <class T>
class Atomic {
 public:
  constexpr Atomic() : value_{} {}
  constexpr explicit Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load_relaxed() const { return value_; }
  T load_acquire() const { return value_; }
  void store_relaxed(T value) { store(value); }
  void store_release(T value) { store(value); }

#define FREEWAY_TEST_RMW(order)                                                                  \
  T exchange_##order(T value) { return change(value); }                                          \
  T fetch_add_##order(T value) { return change(static_cast<T>(value_ + value)); }                \
  T fetch_sub_##order(T value) { return change(static_cast<T>(value_ - value)); }                \
  T fetch_or_##order(T value) { return change(static_cast<T>(value_ | value)); }                 \
  T fetch_and_##order(T value) { return change(static_cast<T>(value_ & value)); }                \
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
  T change(T value) {
    const T before = value_;
    store(value);
    return before;
  }
  bool compare(T& expected, T desired) {
    if (value_ != expected) {
      expected = value_;
      return false;
    }
    store(desired);
    return true;
  }

  T value_;
};

// Fields that their owner alone sees: whoever ends takes his view along.
template <class T>
class Plain {
 public:
  constexpr Plain() : value_{} {}
  constexpr explicit Plain(T value) : value_(value) {}
  T get() const { return value_; }
  void set(T value) { value_ = value; }

 private:
  T value_;
};

inline void fence_acquire() {}

}  // namespace freeway
