// SPDX-License-Identifier: MIT
// model_env.h: the Env under which the shipped templates run in the explorer.
//
// Each Atomic and Plain asks the explorer for its location at its first use in an execution, so that one made of zeroed
// memory without a constructor works too. Outside of an exploration both are plain variables.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/explorer/memory.h"

namespace freeway::model {

// Where the templates' operations enter the explorer.
std::uint32_t current_epoch();  // differs between executions; 0 outside of one
int register_atomic(const void* address, std::uint64_t initial);
int register_plain(const void* address);
bool setting_up();  // in a program's constructor
std::uint64_t perform(Operation& op);
void access_plain(int field, bool write);
void perform_fence(Site site);
void mark_step(const char* name);
bool mutant_active(const char* name);

struct ModelEnv {
  template <class T> class Atomic {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);

   public:
    constexpr Atomic() = default;
    constexpr explicit Atomic(T value) : value_(value) {}
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

#define FREEWAY_MODEL_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
    T load_relaxed(FREEWAY_MODEL_SITE) const { return run(Kind::kLoad, kRelaxed, T{}, {file, line}); }
    T load_acquire(FREEWAY_MODEL_SITE) const { return run(Kind::kLoad, kAcquire, T{}, {file, line}); }
    void store_relaxed(T value, FREEWAY_MODEL_SITE) { run(Kind::kStore, kRelaxed, value, {file, line}); }
    void store_release(T value, FREEWAY_MODEL_SITE) { run(Kind::kStore, kRelease, value, {file, line}); }

#define FREEWAY_MODEL_RMW(name, order)                                                                        \
  T exchange_##name(T value, FREEWAY_MODEL_SITE) { return run(Kind::kExchange, order, value, {file, line}); } \
  T fetch_add_##name(T value, FREEWAY_MODEL_SITE) { return run(Kind::kAdd, order, value, {file, line}); }     \
  T fetch_sub_##name(T value, FREEWAY_MODEL_SITE) { return run(Kind::kSub, order, value, {file, line}); }     \
  T fetch_or_##name(T value, FREEWAY_MODEL_SITE) { return run(Kind::kOr, order, value, {file, line}); }       \
  T fetch_and_##name(T value, FREEWAY_MODEL_SITE) { return run(Kind::kAnd, order, value, {file, line}); }     \
  bool cas_##name(T& expected, T desired, FREEWAY_MODEL_SITE) {                                               \
    return compare(order, kRelaxed, expected, desired, {file, line});                                         \
  }
    FREEWAY_MODEL_RMW(relaxed, kRelaxed)
    FREEWAY_MODEL_RMW(acquire, kAcquire)
    FREEWAY_MODEL_RMW(release, kRelease)
    FREEWAY_MODEL_RMW(acq_rel, kAcqRel)
#undef FREEWAY_MODEL_RMW

    bool cas_relaxed_acquire(T& expected, T desired, FREEWAY_MODEL_SITE) {
      return compare(kRelaxed, kAcquire, expected, desired, {file, line});
    }
    bool cas_acquire_acquire(T& expected, T desired, FREEWAY_MODEL_SITE) {
      return compare(kAcquire, kAcquire, expected, desired, {file, line});
    }
    bool cas_acq_rel_acquire(T& expected, T desired, FREEWAY_MODEL_SITE) {
      return compare(kAcqRel, kAcquire, expected, desired, {file, line});
    }

   private:
    static std::uint64_t encode(T value) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(T));
      return bits;
    }
    static T decode(std::uint64_t bits) {
      T value;
      std::memcpy(&value, &bits, sizeof(T));
      return value;
    }
    int location() const {
      if (epoch_ != current_epoch()) {
        epoch_ = current_epoch();
        id_ = register_atomic(this, encode(value_));
      }
      return id_;
    }
    T run(Kind kind, Order order, T operand, Site site) const {
      if (current_epoch() == 0) return run_alone(kind, operand);
      Operation op{kind, order, kRelaxed, sizeof(T), location(), encode(operand), 0, site, 0, false};
      return decode(perform(op));
    }
    bool compare(Order success, Order failure, T& expected, T desired, Site site) {
      if (current_epoch() == 0) {
        bool equal = value_ == expected;
        if (equal) value_ = desired;
        else expected = value_;
        return equal;
      }
      Operation op{Kind::kCas,      success,          failure, sizeof(T), location(),
                   encode(desired), encode(expected), site,    0,         false};
      T seen = decode(perform(op));
      if (!op.wrote) expected = seen;
      return op.wrote;
    }
    T run_alone(Kind kind, T operand) const {
      T before = value_;
      if constexpr (std::is_integral_v<T>) {
        switch (kind) {
          case Kind::kAdd: value_ = static_cast<T>(before + operand); return before;
          case Kind::kSub: value_ = static_cast<T>(before - operand); return before;
          case Kind::kOr: value_ = static_cast<T>(before | operand); return before;
          case Kind::kAnd: value_ = static_cast<T>(before & operand); return before;
          default: break;
        }
      }
      if (kind != Kind::kLoad) value_ = operand;
      return before;
    }

    mutable T value_{};  // the initial value; the explorer keeps the others
    mutable std::uint32_t epoch_ = 0;
    mutable int id_ = 0;
  };

  template <class T> class Plain {
   public:
    constexpr Plain() = default;
    constexpr explicit Plain(T value) : value_(value) {}
    T get() const {
      if (current_epoch() != 0) access_plain(field(), false);
      return value_;
    }
    void set(T value) {
      if (current_epoch() != 0) access_plain(field(), true);
      value_ = value;
    }
    T get_unowned() const { return value_; }  // a peek: docs/optimistic-reads.md

   private:
    int field() const {
      if (epoch_ != current_epoch()) {
        epoch_ = current_epoch();
        id_ = register_plain(this);
      }
      return id_;
    }
    T value_{};
    mutable std::uint32_t epoch_ = 0;
    mutable int id_ = 0;
  };

  static void fence_acquire(FREEWAY_MODEL_SITE) { perform_fence({file, line}); }
  // Full fences are one after the other, and each knows what those before it knew: an RMW on a word of their own.
  static void fence_full(FREEWAY_MODEL_SITE) {
    static Atomic<std::uint64_t> all_fences;
    all_fences.fetch_add_acq_rel(0, file, line);
  }
#undef FREEWAY_MODEL_SITE
  static void fence_signal() {}  // executions are in program order; what is read may be old
  static void step(const char* name) {
    if (current_epoch() != 0) mark_step(name);
  }

  // Giving memory back to the kernel: the program says what that does to its pretended memory.
  using Purge = bool (*)(void* program, std::uintptr_t address, std::size_t bytes);
  static void on_purge(void* program, Purge purge) {
    purge_program = program;
    purge_handler = purge;
  }
  static bool purge(std::uintptr_t address, std::size_t bytes) { return purge_handler(purge_program, address, bytes); }

  // Which planted fault is active (Options::mutant).
  static bool mutant(const char* name) { return current_epoch() != 0 && mutant_active(name); }

 private:
  static inline void* purge_program = nullptr;
  static inline Purge purge_handler = nullptr;
};

}  // namespace freeway::model
