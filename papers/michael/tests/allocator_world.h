// SPDX-License-Identifier: MIT
//
// allocator_world.h: papers/michael/allocator.h over memory of the test's: spans full of old data, refusal on demand,
// and a check that each hyperblock is given back once.
#ifndef FREEWAY_TESTS_ENGINES_MICHAEL_ALLOCATOR_WORLD_H
#define FREEWAY_TESTS_ENGINES_MICHAEL_ALLOCATOR_WORLD_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "papers/michael/allocator.h"

namespace freeway::michael {

class WorldOs {
 public:
  WorldOs() : units_(std::aligned_alloc(64, kUnits * 64)) { memset(units_, 0, kUnits * 64); }
  ~WorldOs() {
    for (auto& [base, value] : spans_) std::free(reinterpret_cast<void*>(base));
    std::free(units_);
  }
  WorldOs(const WorldOs&) = delete;

  u32 units(u32 n) {
    const std::lock_guard lock(mutex_);
    if (refuse_units || next_ + n > kUnits) return 0;
    const u32 index = next_;
    next_ += n;
    return index;
  }
  void* at(u32 index) const { return static_cast<char*>(units_) + index * std::size_t{64}; }

  uptr take_span(u32 value) {
    const std::lock_guard lock(mutex_);
    if (spans_left == 0) return 0;
    --spans_left;
    void* base = std::aligned_alloc(kHyperblockBytes, kHyperblockBytes);
    memset(base, 0xa5, kHyperblockBytes);
    spans_[reinterpret_cast<uptr>(base)] = value;
    return reinterpret_cast<uptr>(base);
  }
  void give_span(uptr base) {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(spans_.erase(base), 1u) << "given back twice, or never taken";
    if (spans_left != ~0u) ++spans_left;
    std::free(reinterpret_cast<void*>(base));
  }

  u32 value_of(uptr address) {
    const std::lock_guard lock(mutex_);
    const auto at = spans_.find(align_down(address, kHyperblockBytes));
    return at == spans_.end() ? 0 : at->second;
  }
  std::size_t spans() const { return spans_.size(); }
  std::size_t unit_bytes() const { return next_ * std::size_t{64}; }

  u32 spans_left = ~0u;  // before they are refused
  bool refuse_units = false;

 private:
  static constexpr u32 kUnits = 1 << 16;
  std::mutex mutex_;
  void* units_;
  u32 next_ = 1;
  std::map<uptr, u32> spans_;
};

template <class Env> class World {
 public:
  using Michael = Allocator<Env, WorldOs>;

  explicit World(u32 heaps = 1, const Policy& policy = {}, ListKind list = ListKind::kFifo) {
    const u32 units = static_cast<u32>(ceil_div(Michael::bytes(heaps), 64));
    const u32 index = os_.units(units + Michael::kDummies);
    michael_ = new (os_.at(index)) Michael;
    michael_->init(&os_, heaps, policy, list, index + units);
    first_units_ = os_.unit_bytes();
  }

  Michael& michael() { return *michael_; }
  WorldOs& os() { return os_; }
  uptr malloc(std::size_t bytes, u32 heap = 0) { return michael().malloc(bytes, heap); }
  bool free(uptr address) { return michael().free(address, os_.value_of(address)); }
  std::size_t usable(uptr address) { return michael().usable(address, os_.value_of(address)); }
  // Bytes of descriptors and hazard records.
  std::size_t descriptor_bytes() const { return os_.unit_bytes() - first_units_; }

  Figures figures() {
    Figures sum = michael().figures([](const char* what, uptr) { ADD_FAILURE() << what; });
    return sum;
  }
  // Nothing is live any more, and after a trim nothing is kept.
  void expect_empty() {
    EXPECT_EQ(figures().live_blocks, 0u);
    michael().trim();
    michael().trim();
    EXPECT_EQ(os_.spans(), 0u);
    EXPECT_EQ(figures().superblocks, 0u);
  }

 private:
  WorldOs os_;
  Michael* michael_;
  std::size_t first_units_ = 0;
};

struct Form {
  const char* name;
  Policy policy;
  ListKind list;
};
inline constexpr Form kForms[] = {
    {"as in the figures", {1, false, anchor::Form::kLinked}, ListKind::kFifo},
    {"untouched", {1, false, anchor::Form::kUntouched}, ListKind::kFifo},
    {"LIFO, new superblocks kept", {1, true, anchor::Form::kLinked}, ListKind::kLifo},
    {"four slots, untouched, LIFO", {4, true, anchor::Form::kUntouched}, ListKind::kLifo},
};

}  // namespace freeway::michael

#endif  // FREEWAY_TESTS_ENGINES_MICHAEL_ALLOCATOR_WORLD_H
