// SPDX-License-Identifier: MIT
//
// world.h: what the unit tests stand Streamflow's parts on: superpages from the test kernel, headers in a vector, and
// an Env that counts atomic read-modify-writes.
#ifndef FREEWAY_TESTS_ENGINES_STREAMFLOW_WORLD_H
#define FREEWAY_TESTS_ENGINES_STREAMFLOW_WORLD_H

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <set>

#include "papers/streamflow/allocator.h"
#include "papers/streamflow/pages.h"
#include "tests/support/test_env.h"

namespace freeway::test {

// As TestEnv, but each atomic read-modify-write is counted.
struct CountingEnv : TestEnv {
  static inline unsigned rmws = 0;

  // What is not listed does not compile, so nothing goes uncounted.
  template <class T> class Atomic : private freeway::Atomic<T> {
   public:
    using Base = freeway::Atomic<T>;
    using Base::Base;
    using Base::load_acquire;
    using Base::load_relaxed;
    using Base::store_relaxed;
    using Base::store_release;
#define FREEWAY_COUNTED(name)       \
  template <class... A>             \
  auto name(A&&... arguments) {     \
    ++rmws;                         \
    return Base::name(arguments...); \
  }
    FREEWAY_COUNTED(cas_relaxed)
    FREEWAY_COUNTED(cas_acquire)
    FREEWAY_COUNTED(cas_release)
    FREEWAY_COUNTED(cas_relaxed_acquire)
    FREEWAY_COUNTED(cas_acq_rel_acquire)
    FREEWAY_COUNTED(fetch_add_relaxed)
    FREEWAY_COUNTED(fetch_sub_relaxed)
    FREEWAY_COUNTED(fetch_or_relaxed)
    FREEWAY_COUNTED(fetch_or_release)
    FREEWAY_COUNTED(fetch_or_acq_rel)
    FREEWAY_COUNTED(fetch_and_acquire)
#undef FREEWAY_COUNTED
  };
};

class TestSpace {
 public:
  static constexpr u32 kMostSuperpages = 4096;
  static constexpr unsigned kPieceHeaders = 64;
  static constexpr std::size_t kUnits = 1 << 16;

  u32 take_units(u32 units) {
    const std::lock_guard lock(mutex_);
    if (refuse || used_ + units > kUnits) return 0;
    const u32 index = used_;
    used_ += units;
    return index;
  }
  void* at(u32 index) { return units_.get() + index; }
  uptr take_superpage(std::size_t bytes, u32) {
    const uptr address = refuse ? 0 : kernel().map(bytes, bytes);
    const std::lock_guard lock(mutex_);
    if (address != 0) live.insert(address);
    return address;
  }
  void give_superpage(uptr address, std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      ASSERT_EQ(live.erase(address), 1u);
    }
    ASSERT_TRUE(kernel().release(address, bytes));
  }

  bool refuse = false;
  std::set<uptr> live;

 private:
  struct alignas(64) Unit {
    std::byte bytes[64];
  };
  std::unique_ptr<Unit[]> units_ = std::make_unique<Unit[]>(kUnits);
  u32 used_ = 1;
  std::mutex mutex_;
};

// The seed of this run: FREEWAY_TEST_SEED, or a new one; printed.
inline unsigned test_seed() {
  const char* given = std::getenv("FREEWAY_TEST_SEED");
  const auto seed = static_cast<unsigned>(given != nullptr ? std::strtoul(given, nullptr, 10) : std::random_device()());
  std::printf("  FREEWAY_TEST_SEED=%u\n", seed);
  return seed;
}

// The allocator over the page manager, in any build.
template <class Env, streamflow::Build kWhich> struct World {
  using Classes = streamflow::SizeClasses<kWhich>;
  using PagesOf = streamflow::Pages<Env, TestSpace, kWhich>;
  using Allocator = streamflow::Allocator<Env, Classes, PagesOf>;
  using Heap = typename Allocator::Heap;
  using Block = typename Allocator::Block;
  using Object = typename Allocator::Object;

  explicit World(u32 local_limit = 1, u32 global_limit = 0) {
    pages->init(&space);
    allocator->init(pages.get(), local_limit, global_limit);
    for (u32 i = 0; i < 4; ++i) heaps[i].id = i + 1;
  }
  ~World() {
    for (const uptr address : std::set<uptr>(space.live)) space.give_superpage(address, kWhich.superpage_bytes());
  }

  Object allocate(u32 heap, std::size_t bytes) { return allocator->allocate(heaps[heap], Classes::class_of(bytes)); }
  void free(u32 heap, const Object& object) { allocator->free(&heaps[heap], *object.block, object.offset); }
  void free_without_heap(const Object& object) { allocator->free(nullptr, *object.block, object.offset); }
  std::size_t footprint() const { return space.live.size() * kWhich.superpage_bytes(); }

  TestSpace space;
  std::unique_ptr<PagesOf> pages = std::make_unique<PagesOf>();
  std::unique_ptr<Allocator> allocator = std::make_unique<Allocator>();
  std::unique_ptr<Heap[]> heaps = std::make_unique<Heap[]>(4);
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_ENGINES_STREAMFLOW_WORLD_H
