// SPDX-License-Identifier: MIT
// superpage_word_test.cc: the state word against a buddy system as the textbooks have it, with a list for each order.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "papers/streamflow/superpage_word.h"
#include "papers/streamflow/tests/world.h"

namespace freeway::streamflow {
namespace {

// Free buddies by order, split on demand and merged eagerly.
class ListBuddy {
 public:
  explicit ListBuddy(unsigned top) : free_(top + 1) { free_[top].insert(0); }

  int best_order(unsigned order) const {
    for (unsigned o = order; o < free_.size(); ++o)
      if (!free_[o].empty()) return static_cast<int>(o);
    return -1;
  }
  int largest() const {
    for (int o = static_cast<int>(free_.size()) - 1; o >= 0; --o)
      if (!free_[static_cast<unsigned>(o)].empty()) return o;
    return -1;
  }
  unsigned take(unsigned order) {
    auto o = static_cast<unsigned>(best_order(order));
    const unsigned leaf = *free_[o].begin();
    free_[o].erase(leaf);
    while (o > order) {
      --o;
      free_[o].insert(leaf + (1u << o));
    }
    return leaf;
  }
  void give(unsigned leaf, unsigned order) {
    while (order + 1 < free_.size() && free_[order].erase(leaf ^ 1u << order) != 0) leaf &= ~(1u << order++);
    free_[order].insert(leaf);
  }
  const std::set<unsigned>& buddies(unsigned order) const { return free_[order]; }

 private:
  std::vector<std::set<unsigned>> free_;
};

void expect_same(const ListBuddy& lists, u64 word, unsigned top) {
  ASSERT_EQ(superpage_word::largest_free_order(word), lists.largest());
  for (unsigned order = 0; order <= top; ++order) {
    u64 starts = 0;
    for (unsigned leaf : lists.buddies(order)) starts |= u64{1} << leaf;
    ASSERT_EQ(superpage_word::whole_buddies(word, order), starts);
    ASSERT_EQ(superpage_word::best_fit_order(word, order), lists.best_order(order));
  }
}

TEST(SuperpageWord, BehavesAsABuddySystemWithListsInRandomTraces) {
  std::mt19937 random(test::test_seed());
  for (unsigned top : {0u, 3u, 4u, 6u})
    for (int trace = 0; trace < 200; ++trace) {
      ListBuddy lists(top);
      u64 word = low_bits(1u << top);
      std::vector<std::pair<unsigned, unsigned>> held;
      for (int step = 0; step < 200; ++step) {
        const unsigned order = static_cast<unsigned>(random()) % (top + 1);
        if (random() % 2 == 0 && lists.best_order(order) >= 0) {
          const unsigned leaf = superpage_word::place(word, superpage_word::best_fit_order(word, order));
          ASSERT_EQ(leaf, lists.take(order));
          ASSERT_EQ(word & superpage_word::block_mask(leaf, order), superpage_word::block_mask(leaf, order));
          word &= ~superpage_word::block_mask(leaf, order);
          held.emplace_back(leaf, order);
        } else if (!held.empty()) {
          std::swap(held[random() % held.size()], held.back());
          word |= superpage_word::block_mask(held.back().first, held.back().second);
          lists.give(held.back().first, held.back().second);
          held.pop_back();
        }
        expect_same(lists, word, top);
        if (HasFatalFailure()) return;
      }
    }
}

TEST(SuperpageWord, FindsFreeBuddiesInEveryWordOfEightLeaves) {
  for (u64 word = 0; word < 256; ++word)
    for (unsigned order = 0; order <= 3; ++order)
      for (unsigned leaf = 0; leaf < 8; leaf += 1u << order) {
        const u64 mask = superpage_word::block_mask(leaf, order);
        EXPECT_EQ((superpage_word::free_buddies(word, order) >> leaf & 1) != 0, (word & mask) == mask);
      }
}

}  // namespace
}  // namespace freeway::streamflow
