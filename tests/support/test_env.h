// SPDX-License-Identifier: MIT
//
// test_env.h: the Env of the unit tests: real atomics and real memory, but a kernel that refuses what a test wants it
// to refuse, checks that it is asked for sensible things only, and counts; and steps at which a test may act as another
// thread would, or end the thread for ever.
//
// Refusing   kernel().refuse(Call::kCommit, 3) refuses the third commit from now on; refuse_any(n) the n-th call of any
//            kind; refuse_all(true) everything until refuse_all(false)
// Steps      at_step("arena.taken", f) calls f at the next step of that name, at_step("", f) at the next one of any
//            name; stop_at("arena.taken") throws Stopped there: so a thread that never comes back looks to the others
// Threads    several may run in it, as long as no step is waited for
// Counting   rmws_of(f) is the number of atomic read-modify-writes that f makes (link freeway_counting)
#ifndef FREEWAY_TESTS_UNIT_TEST_ENV_H
#define FREEWAY_TESTS_UNIT_TEST_ENV_H

#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "arch/atomic.h"
#include "tests/support/acting_fault.h"
#include "tests/support/kernel.h"
#include "tests/support/stopped.h"

namespace freeway::test {

struct TestEnv {
  template <class T> using Atomic = freeway::Atomic<T>;
  template <class T> using Plain = freeway::Plain<T>;

  static void fence_acquire() { freeway::fence_acquire(); }
  static void fence_full() { freeway::fence_full(); }
  static void fence_signal() { freeway::fence_signal(); }
  static void step(const char* name) {
    if (!hook || (!hook_name.empty() && name != hook_name)) return;
    if (hook_skips > 0) {
      --hook_skips;
      return;
    }
    auto f = std::exchange(hook, nullptr);  // what it does passes steps, too
    f();
  }

  static bool mutant(const char* name) { return fault_acts(name); }  // asked by planted headers alone

  static Space space(std::size_t bytes, std::size_t alignment) { return kernel().space(bytes, alignment); }
  static Extended extend(uptr address, std::size_t bytes) { return kernel().extend(address, bytes); }
  static uptr reserve(std::size_t bytes, std::size_t alignment) { return kernel().reserve(bytes, alignment); }
  static uptr map(std::size_t bytes, std::size_t alignment) { return kernel().map(bytes, alignment); }
  static bool commit(uptr address, std::size_t bytes) { return kernel().commit(address, bytes); }
  static bool forbid(uptr address, std::size_t bytes) { return kernel().forbid(address, bytes); }
  static void touch(uptr address) { *reinterpret_cast<volatile u64*>(address) = 0; }
  static bool purge(uptr address, std::size_t bytes) { return kernel().purge(address, bytes); }
  static std::size_t resident(uptr address, std::size_t bytes) { return kernel().resident(address, bytes); }
  static bool release(uptr address, std::size_t bytes) { return kernel().release(address, bytes); }
  static bool move(uptr from, std::size_t old_bytes, uptr to, std::size_t new_bytes) {
    return kernel().move(from, old_bytes, to, new_bytes);
  }
  static bool move_out(uptr from, std::size_t bytes, uptr to) { return kernel().move_out(from, bytes, to); }
  static void copy(uptr to, uptr from, std::size_t bytes) {
    memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  }
  static bool resize(uptr address, std::size_t old_bytes, std::size_t new_bytes) {
    return kernel().resize(address, old_bytes, new_bytes);
  }

  static Kernel& kernel() {
    static Kernel one;
    return one;
  }

  // Calls `f` at the next step called `name` (empty: any), after `skips` others of that name. One at a time.
  static void at_step(const char* name, std::function<void()> f, unsigned skips = 0) {
    hook_name = name;
    hook_skips = skips;
    hook = std::move(f);
  }
  static void stop_at(const char* name, unsigned skips = 0) {
    at_step(name, [] { throw Stopped(); }, skips);
  }
  // Whether the step was not reached; it is forgotten then.
  static bool step_left() { return std::exchange(hook, nullptr) != nullptr; }

 private:
  static inline std::function<void()> hook;
  static inline std::string hook_name;
  static inline unsigned hook_skips = 0;
};

inline Kernel& kernel() { return TestEnv::kernel(); }

// Runs `f` as a thread that ends at `step`; true if it got there.
template <class F> bool ended_at(const char* step, F&& f, unsigned skips = 0) {
  TestEnv::stop_at(step, skips);
  try {
    f();
  } catch (const Stopped&) { return true; }
  TestEnv::step_left();
  return false;
}

#ifdef FREEWAY_COUNT_RMW
template <class F> int rmws_of(F&& f) {
  const u64 before = rmw_count;
  f();
  return static_cast<int>(rmw_count - before);
}
#endif

inline bool is_zero(uptr address, std::size_t bytes) {
  const auto* p = reinterpret_cast<const unsigned char*>(address);
  return bytes == 0 || (p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0);
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_UNIT_TEST_ENV_H
