// SPDX-License-Identifier: MIT
//
// A slab is consistent at every instruction: each operation is ended before each of its stores, as a killed thread or
// fork ends it, and the slab must then look as before the operation or as after it, and work.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/cache/test_slab.h"
#include "tests/support/proof.h"

namespace freeway::test {
namespace {

constexpr unsigned kClass = 20;  // a class that can grow
constexpr u64 kFirstGrown = kMagazines[kClass].small + 5, kStep = 7;
static_assert(kMagazines[kClass].big > kFirstGrown + 3 * kStep);

// What a slab says of one class.
struct View {
  std::vector<u64> contents;
  u64 room, current;
  bool operator==(const View&) const = default;
};

class SlabStoppedTest : public testing::Test {
 protected:
  View view(unsigned c) { return {memory_.contents(c), memory_.room(c), slab().current[c].load_relaxed()}; }
  Slab& slab() { return memory_.slab(); }

  // Where an operation may begin.
  struct Start {
    const char* name;
    std::function<void()> make;
  };
  std::vector<Start> starts() {
    const auto fill = [this](u64 n) {
      for (u64 i = 0; i < n; ++i) PlainSlab(slab()).push(kClass, block(kClass, i));
    };
    const auto grown = [this] {
      memory_.open(kClass);
      memory_.move(kClass, kFirstGrown);
      slab().capacity[kClass].store_relaxed(kFirstGrown);
    };
    constexpr u64 kSmall = kMagazines[kClass].small;
    return {{"closed", [] {}},
            {"empty", [this] { memory_.open(kClass); }},
            {"half", [this, fill] { memory_.open(kClass), fill(kSmall / 2); }},
            {"full", [this, fill] { memory_.open(kClass), fill(kSmall); }},
            {"grown and empty", grown},
            {"grown and half", [grown, fill] { grown(), fill(kSmall / 2); }},
            {"grown and full", [grown, fill] { grown(), fill(kFirstGrown); }},
            {"grown, its capacity not yet said", [this, grown, fill] {
               grown();
               fill(3);
               memory_.grow(kClass, kFirstGrown, kStep);
             }}};
  }

  struct Operation {
    const char* name;
    std::function<void()> run;
  };
  std::vector<Operation> operations() {
    return {{"pop", [this] { PlainSlab(slab()).pop(kClass); }},
            {"push", [this] { PlainSlab(slab()).push(kClass, block(kClass, 1000)); }},
            {"pop_batch", [this] { PlainSlab(slab()).pop_batch(kClass, out_, 9); }},
            {"push_batch",
             [this] {
               for (u64 i = 0; i < 9; ++i) out_[i] = reinterpret_cast<void*>(block(kClass, 2000 + i));
               PlainSlab(slab()).push_batch(kClass, out_, 9);
             }},
            {"push_run", [this] { PlainSlab(slab()).push_run(kClass, block(kClass, 3000), 16, 9); }},
            {"open", [this] { memory_.open(kClass); }},
            {"move", [this] { memory_.move(kClass, kFirstGrown); }},
            {"grow",
             [this] {
               const u64 capacity = slab().capacity[kClass].load_relaxed();
               if (capacity > kMagazines[kClass].small) memory_.grow(kClass, capacity, kStep);  // else one moves first
             }},
            {"take_current", [this] { PlainSlab(slab()).take_current(kClass); }},
            {"put_current", [this] { PlainSlab(slab()).put_current(kClass, 6); }}};
  }

  void begin(const Start& start) {
    memory_.clear();
    for (unsigned c : {kClass - 1, kClass + 1}) {  // neighbours, whose sentinels are shared
      memory_.open(c);
      for (u64 i = 0; i < kMagazines[c].small; ++i) PlainSlab(slab()).push(c, block(c, i));
    }
    start.make();
  }

  // That the slab works: it takes as many as it has room for, gives all back, and its magazine can still grow.
  void use(const View& found) {
    u64 pushed = 0;
    while (PlainSlab(slab()).push(kClass, block(kClass, 5000 + pushed)) == 1) ++pushed;
    ASSERT_EQ(pushed, found.room);
    if (memory_.move(kClass, kFirstGrown) == 1) slab().capacity[kClass].store_relaxed(kFirstGrown);
    ASSERT_EQ(memory_.contents(kClass).size(), pushed + found.contents.size());
    while (pushed > 0) ASSERT_EQ(PlainSlab(slab()).pop(kClass), block(kClass, 5000 + --pushed));
    ASSERT_EQ(memory_.contents(kClass), found.contents);
    for (std::size_t i = found.contents.size(); i-- > 0;) ASSERT_EQ(PlainSlab(slab()).pop(kClass), found.contents[i]);
    ASSERT_EQ(PlainSlab(slab()).pop(kClass), 0u);
    if (memory_.room(kClass) > kMagazines[kClass].small) {  // grown: it may grow on, by whatever it has grown to
      u64 capacity = slab().capacity[kClass].load_relaxed();
      if (memory_.grow(kClass, capacity, kStep) == 2) slab().capacity[kClass].store_relaxed(capacity += kStep);
      else capacity += kStep;
      ASSERT_EQ(memory_.room(kClass), capacity);
    }
  }

  TestSlab memory_;
  void* out_[64] = {};
};

TEST_F(SlabStoppedTest, AnOperationThatEndsAnywhereHasHappenedOrNot) {
  u64 endings = 0;
  for (const Start& start : starts())
    for (const Operation& operation : operations()) {
      begin(start);
      const View before = view(kClass);
      const std::vector<View> neighbours = {view(kClass - 1), view(kClass + 1)};
      operation.run();
      const View after = view(kClass);
      for (u64 stores = 0;; ++stores) {
        begin(start);
        if (!ended_before_store(stores, operation.run)) break;
        ++endings;
        const View found = view(kClass);
        ASSERT_TRUE(found == before || found == after)
            << operation.name << " of a magazine that is " << start.name << ", ended before store " << stores;
        ASSERT_EQ(view(kClass - 1), neighbours[0]);
        ASSERT_EQ(view(kClass + 1), neighbours[1]);
        use(found);
        if (HasFatalFailure()) FAIL() << operation.name << " of " << start.name << ", ended before store " << stores;
        ASSERT_EQ(view(kClass - 1), neighbours[0]);
        ASSERT_EQ(view(kClass + 1), neighbours[1]);
      }
    }
  EXPECT_GT(endings, 300u);
  proof("stops and kills", "ended before each store: slabs", "stops", endings);
}

// The child of a fork may find an operation half done, do another half, and fork again.
TEST_F(SlabStoppedTest, TwoOperationsThatEndAnywhereHaveHappenedOrNot) {
  for (const Start& start : starts())
    for (const Operation& first : operations())
      for (const Operation& second : operations())
        for (u64 stores = 0;; ++stores) {
          begin(start);
          if (!ended_before_store(stores, first.run)) break;
          const View between = view(kClass);
          second.run();
          const View after = view(kClass);
          for (u64 more = 0;; more += 3) {
            begin(start);
            ended_before_store(stores, first.run);
            if (!ended_before_store(more, second.run)) break;
            const View found = view(kClass);
            ASSERT_TRUE(found == between || found == after)
                << first.name << " ended before store " << stores << ", then " << second.name << " before " << more;
          }
        }
}

}  // namespace
}  // namespace freeway::test
