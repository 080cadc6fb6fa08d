// SPDX-License-Identifier: MIT
//
// explored/arch/atomic.h: found before src/arch/atomic.h by models of code whose words are freeway::Atomic, not an
// Env's: what lies in a slab, where it matters that a word has eight bytes. The shipped code above it is compiled
// unchanged.
//
// Where such a word lies says which location of the explorer it is. In a program's constructor it is a plain variable,
// and becomes a location when a thread first touches it; so large structures cost only what is used of them. Words in
// static memory keep what the constructor stored: what threads store is the explorer's.
#pragma once

#include "base/compiler.h"
#include "base/integers.h"
#include "tests/explorer/model_env.h"

namespace freeway {

namespace explored {

// Addresses of this execution's locations.
class Locations {
 public:
  // -1: not known.
  int find(const void* address) const {
    for (unsigned at = slot_of(address);; at = (at + 1) % kSlots) {
      if (slots_[at].epoch != model::current_epoch()) return -1;
      if (slots_[at].address == address) return slots_[at].location;
    }
  }
  int add(const void* address, u64 initial) {
    unsigned at = slot_of(address);
    while (slots_[at].epoch == model::current_epoch()) at = (at + 1) % kSlots;
    slots_[at] = {address, model::current_epoch(), model::register_atomic(address, initial)};
    return slots_[at].location;
  }

 private:
  static constexpr unsigned kSlots = 1024;  // many more than kMaxLocations
  static_assert(kSlots > 4 * model::kMaxLocations);
  static unsigned slot_of(const void* address) {
    return static_cast<unsigned>((reinterpret_cast<u64>(address) * 0x9e3779b97f4a7c15u) >> 54) % kSlots;
  }
  struct Slot {
    const void* address;
    std::uint32_t epoch;
    int location;
  };
  Slot slots_[kSlots] = {};
};
inline Locations locations;

// Words that are variables all the time: counts that nothing depends on.
struct LeftOut {
  const char *begin, *end;
};
inline LeftOut left_out[4];
inline bool is_left_out(const void* address) {
  const auto* at = static_cast<const char*>(address);
  for (const LeftOut& each : left_out)
    if (at >= each.begin && at < each.end) return true;
  return false;
}

}  // namespace explored

template <class T> class Atomic {
  static_assert(sizeof(T) <= 8);

 public:
  constexpr Atomic() : value_{} {}
  constexpr explicit Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  using Kind = model::Kind;
  using Order = model::Order;
#define FREEWAY_MODEL_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
  T load_relaxed(FREEWAY_MODEL_SITE) const { return run(Kind::kLoad, Order::kRelaxed, T{}, {file, line}); }
  T load_acquire(FREEWAY_MODEL_SITE) const { return run(Kind::kLoad, Order::kAcquire, T{}, {file, line}); }
  void store_relaxed(T value, FREEWAY_MODEL_SITE) { run(Kind::kStore, Order::kRelaxed, value, {file, line}); }
  void store_release(T value, FREEWAY_MODEL_SITE) { run(Kind::kStore, Order::kRelease, value, {file, line}); }
  T fetch_add_relaxed(T value, FREEWAY_MODEL_SITE) { return run(Kind::kAdd, Order::kRelaxed, value, {file, line}); }
#undef FREEWAY_MODEL_SITE

 private:
  static u64 encode(T value) {
    u64 bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
  }
  static T decode(u64 bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
  }
  T run(Kind kind, Order order, T operand, model::Site site) const {
    if (explored::is_left_out(this)) return run_alone(kind, operand);
    int location = model::current_epoch() == 0 ? -1 : explored::locations.find(this);
    if (location < 0) {
      if (model::current_epoch() == 0 || model::setting_up()) return run_alone(kind, operand);
      location = explored::locations.add(this, encode(value_));
    }
    model::Operation op{kind, order, model::kRelaxed, sizeof(T), location, encode(operand), 0, site, 0, false};
    return decode(model::perform(op));
  }
  T run_alone(Kind kind, T operand) const {
    const T before = value_;
    if (kind == Kind::kAdd) value_ = static_cast<T>(before + operand);
    else if (kind != Kind::kLoad) value_ = operand;
    return before;
  }

  mutable T value_;
};

inline void fence_acquire() { model::ModelEnv::fence_acquire(); }

}  // namespace freeway
