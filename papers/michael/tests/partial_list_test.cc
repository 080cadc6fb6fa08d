// SPDX-License-Identifier: MIT
//
// Tests of papers/michael/{fifo,lifo,partial_list}.h: order, nodes, and the rule of ListRemoveEmptyDesc. The paper says
// that the rule leaves no more than half of the listed descriptors EMPTY; that is not so, and what is so is tested.
#include "papers/michael/partial_list.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway::michael {
namespace {

using test::Random;
using test::TestEnv;

class PartialListTest : public testing::TestWithParam<ListKind> {
 protected:
  static constexpr u32 kMost = 40;

  void SetUp() override {
    desc_ = std::vector<Descriptor<TestEnv>>(kMost + 2);
    for (u32 d = 1; d <= kMost; ++d) {
      desc_[d].self.set(d);
      desc_[d].node.set(d);
      set(d, anchor::kPartial);
    }
    list_owner_ = std::make_unique<PartialList<TestEnv>>();
    list().init(GetParam(), kMost + 1);
  }
  auto nodes() {
    return [this](u32 index) -> Descriptor<TestEnv>& { return desc_[index]; };
  }
  void set(u32 d, anchor::State state) { desc_[d].anchor.store_relaxed(anchor::with_state(0, state)); }
  void put(u32 d) { list().put(desc_[d], nodes()); }
  u32 get() { return index(list().get(nodes())); }
  u32 remove_empty() { return index(list().remove_empty(nodes())); }
  static u32 index(Descriptor<TestEnv>* desc) { return desc == nullptr ? 0 : desc->self.get(); }
  std::vector<u32> listed() {
    std::vector<u32> all;
    list().each(nodes(), [&](Descriptor<TestEnv>& desc) { all.push_back(desc.self.get()); });
    return all;
  }
  PartialList<TestEnv>& list() { return *list_owner_; }
  bool fifo() const { return GetParam() == ListKind::kFifo; }

  std::vector<Descriptor<TestEnv>> desc_;
  std::unique_ptr<PartialList<TestEnv>> list_owner_;
};
INSTANTIATE_TEST_SUITE_P(, PartialListTest, testing::Values(ListKind::kFifo, ListKind::kLifo),
                         [](const auto& kind) { return kind.param == ListKind::kFifo ? "Fifo" : "Lifo"; });

TEST_P(PartialListTest, AnEmptyListHasNothing) {
  EXPECT_EQ(get(), 0u);
  EXPECT_EQ(remove_empty(), 0u);
  put(1);
  EXPECT_EQ(get(), 1u);
  EXPECT_EQ(get(), 0u);
}

TEST_P(PartialListTest, WhatComesOutIsWhatAnOracleSays) {
  Random random(test::test_seed());
  std::deque<u32> oracle;
  std::vector<u32> idle;
  for (u32 d = 1; d <= kMost; ++d) idle.push_back(d);
  for (int i = 0; i < 100000; ++i) {
    if (random.chance(50) && !idle.empty()) {
      const std::size_t which = random.below(idle.size());
      put(idle[which]);
      fifo() ? oracle.push_back(idle[which]) : oracle.push_front(idle[which]);
      idle.erase(idle.begin() + static_cast<long>(which));
    } else {
      const u32 d = get();
      ASSERT_EQ(d, oracle.empty() ? 0 : oracle.front());
      if (d == 0) continue;
      oracle.pop_front();
      idle.push_back(d);
    }
    if (i % 1000 == 0) { ASSERT_EQ(listed(), std::vector<u32>(oracle.begin(), oracle.end())); }
  }
}

TEST_P(PartialListTest, EachDescriptorHasANodeOfItsOwn) {
  Random random(test::test_seed());
  std::vector<u32> out;
  for (u32 d = 1; d <= kMost; ++d) put(d);
  for (int i = 0; i < 10000; ++i) {
    for (u32 n = 1 + static_cast<u32>(random.below(kMost)); n > 0; --n)
      if (const u32 d = get()) out.push_back(d);
    std::set<u32> nodes_owned;
    for (u32 d : out) ASSERT_TRUE(nodes_owned.insert(desc_[d].node.get()).second);
    while (!out.empty()) {
      const std::size_t which = random.below(out.size());
      put(out[which]);
      out.erase(out.begin() + static_cast<long>(which));
    }
  }
}

// "keeps dequeuing … until": one EMPTY goes, or two that are not go to the end. LIFO: the first EMPTY one, wherever it
// is.
TEST_P(PartialListTest, TheRuleOfListRemoveEmptyDesc) {
  for (u32 d : {1, 2, 3, 4, 5}) put(fifo() ? d : 6 - d);
  set(2, anchor::kEmpty);
  set(4, anchor::kEmpty);
  EXPECT_EQ(remove_empty(), 2u);
  if (fifo()) {
    EXPECT_EQ(listed(), (std::vector<u32>{3, 4, 5, 1})) << "1 was moved, 2 dropped";
    EXPECT_EQ(remove_empty(), 4u);
    EXPECT_EQ(listed(), (std::vector<u32>{5, 1, 3}));
    set(3, anchor::kEmpty);
    EXPECT_EQ(remove_empty(), 0u) << "two that are not EMPTY were moved";
    EXPECT_EQ(listed(), (std::vector<u32>{3, 5, 1}));
    EXPECT_EQ(remove_empty(), 3u);
  } else {
    EXPECT_EQ(listed(), (std::vector<u32>{1, 3, 4, 5}));
    EXPECT_EQ(remove_empty(), 4u) << "from the middle";
    EXPECT_EQ(listed(), (std::vector<u32>{1, 3, 5}));
    EXPECT_EQ(remove_empty(), 0u);
    EXPECT_EQ(listed(), (std::vector<u32>{1, 3, 5}));
  }
}

// The paper (§3.2.6): "we are guaranteed that no more than half the descriptors in the list are left empty". A list of
// three that become EMPTY one after the other ends as one that is all EMPTY.
TEST_P(PartialListTest, TheRuleDoesNotBoundTheEmptyOnesToHalf) {
  for (u32 d : {1, 2, 3}) put(fifo() ? d : 4 - d);
  std::size_t empty = 0, most_in_excess = 0;
  for (u32 d : {3, 2, 1}) {
    set(d, anchor::kEmpty);
    remove_empty();
    empty = 0;
    for (u32 l : listed()) empty += anchor::state(desc_[l].anchor.load_relaxed()) == anchor::kEmpty;
    if (empty * 2 > listed().size()) most_in_excess = empty;
  }
  EXPECT_EQ(most_in_excess, fifo() ? 1u : 0u) << "LIFO removes one for each that becomes EMPTY";
}

// What the rule does guarantee: "empty descriptors are eventually made available". Each call takes an EMPTY one out or
// moves two others from before it to behind it, so one at place p is gone after p + 1 calls at the latest, whatever
// else happens.
TEST_P(PartialListTest, AnEmptyDescriptorIsGoneAfterAsManyCallsAsItsPlace) {
  Random random(test::test_seed());
  for (int round = 0; round < 2000; ++round) {
    SetUp();
    const u32 count = 1 + static_cast<u32>(random.below(kMost - 10));
    for (u32 d = 1; d <= count; ++d) put(d);
    for (u32 d = 1; d <= count; ++d)
      if (random.chance(40)) set(d, anchor::kEmpty);
    const auto before = listed();
    const std::size_t place = random.below(count);
    const u32 watched = before[place];
    set(watched, anchor::kEmpty);
    bool gone = false;
    u32 next = count;
    for (std::size_t call = 0; call <= place && !gone; ++call) {
      gone = remove_empty() == watched;
      if (random.chance(30) && next < kMost && fifo()) put(++next);  // behind it
    }
    ASSERT_TRUE(gone) << "at place " << place;
  }
}

}  // namespace
}  // namespace freeway::michael
