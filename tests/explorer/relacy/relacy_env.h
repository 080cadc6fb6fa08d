// SPDX-License-Identifier: MIT
// relacy_env.h: the Env under which the shipped templates run in Relacy (Dmitry Vyukov's race detector, Debian's
// relacy-dev): another explorer, by another hand, with other blind spots than ours.
//
// Limits    Its exhaustive searches read no older value of a word than the last but one, and without reduction they are
//           for small programs only; nothing like load buffering is shown; no thread stops for ever. So it can say that
//           ours is wrong where the two differ, not that the code is right
// Words     start at zero, as in the product. Plain fields are Relacy's variables: unordered accesses are races
#pragma once

#include <cstdint>
#include <ostream>
#include <relacy/relacy.hpp>  // last, and without its macros
#include <streambuf>
#include <string>

#include "base/integers.h"
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno

namespace freeway::model {

struct RelacyEnv {
#define FREEWAY_RELACY_SITE \
  const char *function = __builtin_FUNCTION(), const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()
#define FREEWAY_RELACY_HERE (rl::debug_info(function, file, line))

  template <class T> class Atomic {
   public:
    explicit Atomic(T value = T{}, FREEWAY_RELACY_SITE) { word_.store(value, rl::mo_relaxed, FREEWAY_RELACY_HERE); }
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    T load_relaxed(FREEWAY_RELACY_SITE) const { return word_.load(rl::mo_relaxed, FREEWAY_RELACY_HERE); }
    T load_acquire(FREEWAY_RELACY_SITE) const { return word_.load(rl::mo_acquire, FREEWAY_RELACY_HERE); }
    void store_relaxed(T value, FREEWAY_RELACY_SITE) { word_.store(kept(value), rl::mo_relaxed, FREEWAY_RELACY_HERE); }
    void store_release(T value, FREEWAY_RELACY_SITE) {
      word_.store(kept(value), order(rl::mo_release), FREEWAY_RELACY_HERE);
    }

#define FREEWAY_RELACY_RMW(name, mo)                                                                                  \
  T exchange_##name(T v, FREEWAY_RELACY_SITE) { return word_.exchange(kept(v), order(rl::mo), FREEWAY_RELACY_HERE); } \
  T fetch_add_##name(T v, FREEWAY_RELACY_SITE) { return word_.fetch_add(v, order(rl::mo), FREEWAY_RELACY_HERE); }     \
  T fetch_sub_##name(T v, FREEWAY_RELACY_SITE) { return word_.fetch_sub(v, order(rl::mo), FREEWAY_RELACY_HERE); }     \
  T fetch_or_##name(T v, FREEWAY_RELACY_SITE) { return word_.fetch_or(v, order(rl::mo), FREEWAY_RELACY_HERE); }       \
  T fetch_and_##name(T v, FREEWAY_RELACY_SITE) { return word_.fetch_and(v, order(rl::mo), FREEWAY_RELACY_HERE); }     \
  bool cas_##name(T& expected, T desired, FREEWAY_RELACY_SITE) {                                                      \
    return cas(expected, desired, order(rl::mo), rl::mo_relaxed, FREEWAY_RELACY_HERE);                                \
  }
    FREEWAY_RELACY_RMW(relaxed, mo_relaxed)
    FREEWAY_RELACY_RMW(acquire, mo_acquire)
    FREEWAY_RELACY_RMW(release, mo_release)
    FREEWAY_RELACY_RMW(acq_rel, mo_acq_rel)
#undef FREEWAY_RELACY_RMW

    bool cas_acquire_acquire(T& expected, T desired, FREEWAY_RELACY_SITE) {
      return cas(expected, desired, rl::mo_acquire, rl::mo_acquire, FREEWAY_RELACY_HERE);
    }
    bool cas_acq_rel_acquire(T& expected, T desired, FREEWAY_RELACY_SITE) {
      return cas(expected, desired, order(rl::mo_acq_rel), rl::mo_acquire, FREEWAY_RELACY_HERE);
    }
    // Relacy knows no failure order that is stronger than the success order: a fence says the same.
    bool cas_relaxed_acquire(T& expected, T desired, FREEWAY_RELACY_SITE) {
      if (cas_relaxed(expected, desired, function, file, line)) return true;
      rl::atomic_thread_fence(rl::mo_acquire, FREEWAY_RELACY_HERE);
      return false;
    }

   private:
    bool cas(T& expected, T desired, rl::memory_order success, rl::memory_order failure, const rl::debug_info& here) {
      return word_.compare_exchange_strong(expected, kept(desired), success, here, failure, here);
    }
    static T kept(T value) {
      if constexpr (sizeof(T) == 8) return value & kept_bits;
      return value;
    }
    mutable rl::atomic<T> word_;
  };

  template <class T> class Plain {
   public:
    explicit Plain(T value = T{}, FREEWAY_RELACY_SITE) { value_(FREEWAY_RELACY_HERE).store(value); }
    T get(FREEWAY_RELACY_SITE) const { return value_(FREEWAY_RELACY_HERE).load(); }
    void set(T value, FREEWAY_RELACY_SITE) { value_(FREEWAY_RELACY_HERE).store(value); }

   private:
    mutable rl::var<T> value_;
  };

  static void fence_acquire(FREEWAY_RELACY_SITE) { rl::atomic_thread_fence(rl::mo_acquire, FREEWAY_RELACY_HERE); }
  static void step(const char*) {}
  static bool purge(std::uintptr_t, std::size_t) { return true; }
  static bool mutant(const char* name) { return planted == name; }

  // Planted faults: a fault of the code's own, bits that 64-bit words lose, releases that are none.
  static inline std::string planted;
  static inline u64 kept_bits = ~u64{0};
  static inline bool releases = true;

 private:
  static rl::memory_order order(rl::memory_order asked) {
    if (releases) return asked;
    return asked == rl::mo_release ? rl::mo_relaxed : asked == rl::mo_acq_rel ? rl::mo_acquire : asked;
  }
};

// Relacy prints where all that is allocated is the program's: so this stream has its memory already. More is cut.
class FixedText : public std::streambuf {
 public:
  FixedText() { setp(text_, text_ + sizeof text_); }
  std::string text() const { return {pbase(), pptr()}; }

 private:
  static inline char text_[1 << 20];
};

// What Relacy did with one program.
struct RelacyResult {
  rl::test_result_e result;
  u64 executions;
  std::string text;

  bool ok() const { return result == rl::test_result_success; }
  // Of the program, not of how it is written. What runs in circles is a broken list, too.
  bool is_fault() const {
    return result == rl::test_result_user_assert_failed || result == rl::test_result_data_race ||
           result == rl::test_result_livelock;
  }
};

// `executions`: random ones; 0: all that there are.
template <class Program> RelacyResult run_in_relacy(unsigned executions) {
  FixedText text;
  std::ostream stream(&text);
  rl::test_params params;
  params.output_stream = &stream;
  params.progress_stream = &stream;
  params.search_type = executions == 0 ? rl::sched_full : rl::sched_random;
  if (executions != 0) params.iteration_count = executions;
  rl::simulate<Program>(params);
  return {params.test_result, static_cast<u64>(params.stop_iteration), text.text()};
}

}  // namespace freeway::model
