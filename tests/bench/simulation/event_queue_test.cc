// SPDX-License-Identifier: MIT
//
// Tests of the total order of events and of EventQueue: whatever goes in and is taken out of the middle, what comes out
// is the least.
#include "simulation/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <vector>

#include "tests/support/random.h"

namespace simulation {
namespace {

using freeway::test::Random;
using freeway::test::test_seed;

struct Nothing {};
using TestEvent = Event<Nothing>;

struct Earlier {
  bool operator()(const TestEvent* a, const TestEvent* b) const { return TotalOrder::before(a->key, b->key); }
};

TEST(TotalOrder, TimeThenDestinationThenSourceThenSequence) {
  const Key least{5, 2, 2, 2};
  const Key later[] = {{6, 0, 0, 0}, {5, 3, 0, 0}, {5, 2, 3, 0}, {5, 2, 2, 3}};
  for (const Key& key : later) {
    EXPECT_TRUE(TotalOrder::before(least, key));
    EXPECT_FALSE(TotalOrder::before(key, least));
  }
  EXPECT_FALSE(TotalOrder::before(least, least));
}

TEST(EventQueue, AnEmptyQueueHasNothing) {
  EventQueue<TestEvent> queue;
  EXPECT_EQ(queue.earliest(), nullptr);
  EXPECT_EQ(queue.take_earliest(), nullptr);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(EventQueue, EventsOfOneTimeComeOutInTheOrderOfTheirKeysWhateverTheOrderOfInsertion) {
  std::vector<Key> keys;
  for (std::uint32_t i = 0; i < 4; ++i)
    for (std::uint32_t j = 0; j < 4; ++j)
      for (std::uint32_t k = 0; k < 2; ++k) keys.push_back({7, i, j, k});
  Random random(test_seed());
  for (int round = 0; round < 50; ++round) {
    std::vector<Key> mixed = keys;
    for (std::size_t i = mixed.size(); i > 1; --i) std::swap(mixed[i - 1], mixed[random.below(i)]);
    std::deque<TestEvent> events;
    EventQueue<TestEvent> queue;
    for (const Key& key : mixed) queue.insert(&events.emplace_back(key, Nothing{}));
    for (const Key& key : keys) ASSERT_EQ(queue.take_earliest()->key, key);
    ASSERT_EQ(queue.take_earliest(), nullptr);
  }
}

TEST(EventQueue, InsertTakeAndRemoveAgreeWithASet) {
  Random random(test_seed());
  std::deque<TestEvent> storage;
  std::vector<TestEvent*> outside;
  for (std::uint32_t i = 0; i < 500; ++i) {
    const auto id = static_cast<std::uint32_t>(random.below(8));
    outside.push_back(&storage.emplace_back(Key{random.below(40), id, id, i}, Nothing{}));
  }
  EventQueue<TestEvent> queue;
  std::set<TestEvent*, Earlier> oracle;
  for (int step = 0; step < 200000; ++step) {
    ASSERT_EQ(queue.size(), oracle.size());
    ASSERT_EQ(queue.earliest(), oracle.empty() ? nullptr : *oracle.begin());
    const bool grow = random.chance(step / 2000 % 2 == 0 ? 60 : 40);  // fills up and empties by turns
    if (grow && !outside.empty()) {
      const std::size_t which = random.below(outside.size());
      std::swap(outside[which], outside.back());
      queue.insert(outside.back());
      oracle.insert(outside.back());
      outside.pop_back();
    } else if (!oracle.empty()) {
      auto which = oracle.begin();
      if (random.chance(50)) {
        std::advance(which, static_cast<long>(random.below(oracle.size())));
        queue.remove(*which);
      } else {
        ASSERT_EQ(queue.take_earliest(), *which);
      }
      outside.push_back(*which);
      oracle.erase(which);
    }
  }
}

}  // namespace
}  // namespace simulation
