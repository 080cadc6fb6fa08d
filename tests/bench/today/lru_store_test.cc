// SPDX-License-Identifier: MIT
//
// The store of kv_cache against a simple model: same items, same order of going, never above the limit.
#include "today/lru_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace {

using bench::LruStore;

constexpr std::size_t kBuckets = 16;  // few, so that chains are long

class Store {
 public:
  explicit Store(std::size_t limit) { store.open(buckets_, kBuckets, limit); }
  ~Store() { store.clear(); }
  LruStore store;

 private:
  LruStore::Item* buckets_[kBuckets] = {};
};

std::size_t charge(std::uint64_t id, std::size_t size) { return LruStore::charge_of(LruStore::key_size_of(id), size); }

// The newest in front.
struct Model {
  struct Item {
    std::uint64_t id;
    std::uint32_t size;
  };
  std::vector<Item> items;
  std::size_t limit;

  std::size_t used() const {
    std::size_t sum = 0;
    for (const Item& item : items) sum += charge(item.id, item.size);
    return sum;
  }
  bool use(std::uint64_t id) {
    const auto found = std::find_if(items.begin(), items.end(), [&](const Item& item) { return item.id == id; });
    if (found == items.end()) return false;
    std::rotate(items.begin(), found, found + 1);
    return true;
  }
  void erase(std::uint64_t id) {
    std::erase_if(items, [&](const Item& item) { return item.id == id; });
  }
  void set(std::uint64_t id, std::uint32_t size) {
    erase(id);
    if (charge(id, size) > limit) return;
    items.insert(items.begin(), {id, size});
    while (used() > limit) items.pop_back();
  }
};

TEST(LruStore, DoesAsTheModelAndKeepsTheLimit) {
  constexpr std::size_t kLimit = 20'000;
  Store owner(kLimit);
  LruStore& store = owner.store;
  Model model{{}, kLimit};
  bench::Random random(5);
  for (int step = 0; step < 50'000; ++step) {
    const std::uint64_t id = 1 + random.below(300);
    const std::uint64_t choice = random.below(10);
    if (choice < 5) {
      // Now and then larger than the whole store.
      const std::uint64_t range = random.below(100) == 0 ? 30'000 : 500;
      const auto size = static_cast<std::uint32_t>(LruStore::kLeastValue + random.below(range));
      EXPECT_EQ(store.set(id, size), charge(id, size) <= kLimit);
      model.set(id, size);
    } else {
      LruStore::Item* item = store.find(id);
      ASSERT_EQ(item != nullptr, model.use(id)) << "step " << step;
      if (item != nullptr) { EXPECT_TRUE(LruStore::intact(*item)); }
      if (item != nullptr && choice == 9) {
        store.erase(item);
        model.erase(id);
      }
    }
    ASSERT_LE(store.used(), kLimit) << "step " << step;
    ASSERT_EQ(store.used(), model.used()) << "step " << step;
    ASSERT_EQ(store.count(), model.items.size());
    if (!model.items.empty()) { ASSERT_EQ(store.oldest()->id, model.items.back().id) << "step " << step; }
  }
  EXPECT_GT(store.evicted(), 1000u) << "the test had no use for the limit";
  EXPECT_EQ(store.broken(), 0u);
}

TEST(LruStore, TheLeastRecentlyUsedGoesFirst) {
  constexpr std::uint32_t kSize = 100;
  Store owner(charge(1, kSize) + charge(2, kSize) + charge(3, kSize));
  LruStore& store = owner.store;
  for (const std::uint64_t id : {1, 2, 3}) store.set(id, kSize);
  ASSERT_NE(store.find(1), nullptr);  // 2 is the oldest now
  // At most as large as 2 with its key, whatever 4's key is.
  store.set(4, kSize - 40);
  EXPECT_EQ(store.find(2), nullptr);
  for (const std::uint64_t id : {1, 3, 4}) EXPECT_NE(store.find(id), nullptr) << id;
}

TEST(LruStore, GrowingAValueEvictsOthersNotItself) {
  Store owner(charge(1, 100) + charge(2, 100));
  LruStore& store = owner.store;
  store.set(1, 100);
  store.set(2, 100);
  EXPECT_TRUE(store.set(1, 150));
  EXPECT_EQ(store.find(2), nullptr);
  ASSERT_NE(store.find(1), nullptr);
  EXPECT_EQ(store.find(1)->value_size, 150u);
}

TEST(LruStore, NoticesThatAValueWasOverwritten) {
  Store owner(10'000);
  LruStore& store = owner.store;
  store.set(1, 64);
  LruStore::Item* item = store.find(1);
  item->value[item->value_size - 1] ^= 1;
  EXPECT_FALSE(LruStore::intact(*item));
  store.erase(item);
  EXPECT_EQ(store.broken(), 1u);
}

}  // namespace
