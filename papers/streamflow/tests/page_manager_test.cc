// SPDX-License-Identifier: MIT
// page_manager_test.cc: best fit by largest_free_order, superpages that go back, BIBOP bytes, refused memory; one
// thread.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "papers/streamflow/tests/world.h"

namespace freeway::streamflow {
namespace {

using test::TestEnv;
using test::TestSpace;

template <Build kWhich> struct PagesWorld {
  using PagesOf = Pages<TestEnv, TestSpace, kWhich>;
  TestSpace space;
  std::unique_ptr<PagesOf> pages = std::make_unique<PagesOf>();
  PagesWorld() { pages->init(&space); }
  auto& manager() { return pages->manager(); }
  ~PagesWorld() {
    for (const uptr address : std::set<uptr>(space.live)) space.give_superpage(address, kWhich.superpage_bytes());
  }
};

TEST(PageManager, APageBlockComesFromTheSuperpageItFitsBest) {
  PagesWorld<kHeaderless> w;  // superpages of 256 KiB
  const auto superpage = [](uptr address) { return align_down(address, 256 * kKiB); };
  const uptr tight = superpage(w.manager().take(3).address);
  EXPECT_EQ(superpage(w.manager().take(2).address), tight);
  EXPECT_EQ(superpage(w.manager().take(1).address), tight);  // 32 KiB are left
  const uptr roomy = superpage(w.manager().take(3).address);
  EXPECT_NE(roomy, tight);  // 128 KiB are left
  EXPECT_EQ(superpage(w.manager().take(0).address), tight);
  EXPECT_EQ(superpage(w.manager().take(1).address), roomy);
  EXPECT_EQ(superpage(w.manager().take(0).address), tight);
  EXPECT_EQ(superpage(w.manager().take(0).address), roomy);
  EXPECT_EQ(w.space.live.size(), 2u);
}

// Whatever was taken and given before: a request is served from the set of superpages whose largest free buddy is
// closest to it, and a new superpage is made only when none has room.
template <Build kWhich> void random_trace(std::mt19937& random) {
  PagesWorld<kWhich> w;
  auto& manager = w.manager();
  std::map<u32, unsigned> held;  // name -> order
  for (int step = 0; step < 3000; ++step) {
    if (random() % 3 != 0 || held.empty()) {
      const unsigned order = static_cast<unsigned>(random()) % kPageBlockOrders;
      int closest = 99;
      for (u32 n = 1; n <= manager.headers().made(); ++n) {
        const int largest = manager.largest_free_order(manager.headers().at(n));
        if (largest >= static_cast<int>(order) && largest < closest) closest = largest;
      }
      const std::size_t superpages = w.space.live.size();
      std::map<uptr, int> before;
      for (u32 n = 1; n <= manager.headers().made(); ++n) {
        const auto& s = manager.headers().at(n);
        if (manager.largest_free_order(s) >= 0) before[s.base.load_relaxed()] = manager.largest_free_order(s);
      }
      const auto taken = w.pages->take(order);
      ASSERT_NE(taken.address, 0u);
      ASSERT_EQ(taken.address % page_block_bytes(order), 0u);
      ASSERT_TRUE(held.emplace(taken.name, order).second) << "nobody else has it";
      ASSERT_EQ(w.space.live.size(), superpages + (closest == 99));
      if (closest != 99) { ASSERT_EQ(before[align_down(taken.address, kWhich.superpage_bytes())], closest); }
    } else {
      auto it = std::next(held.begin(), static_cast<long>(random() % held.size()));
      w.pages->give(it->first, it->second);
      held.erase(it);
    }
    std::size_t bytes = 0;
    for (const auto& [name, order] : held) bytes += page_block_bytes(order);
    ASSERT_EQ(w.pages->free_bytes() + bytes, w.space.live.size() * kWhich.superpage_bytes());
  }
  for (const auto& [name, order] : held) w.pages->give(name, order);
  ASSERT_TRUE(w.space.live.empty()) << "empty superpages go back";
}

TEST(PageManager, ServesRandomTracesByBestFitAndLosesNothing) {
  std::mt19937 random(test::test_seed());
  for (int i = 0; i < 5; ++i) {
    random_trace<kHeaderless>(random);
    random_trace<kSuperpages>(random);
  }
}

TEST(PageManager, ARecycledHeaderIsTheOneLastFreed) {
  PagesWorld<kHeaderless> w;
  const auto a = w.manager().take(4), b = w.manager().take(4);
  w.manager().give(a.name, 4);
  w.manager().give(b.name, 4);
  EXPECT_EQ(w.manager().take(4).name, b.name);
  EXPECT_EQ(w.manager().take(4).name, a.name);
  EXPECT_EQ(w.manager().headers().made(), 2u);
}

TEST(PageManager, RefusedMemoryLosesNothing) {
  PagesWorld<kSuperpages> w;
  w.space.refuse = true;
  EXPECT_EQ(w.manager().take(0).address, 0u);
  w.space.refuse = false;
  const auto first = w.manager().take(0);
  ASSERT_NE(first.address, 0u);
  w.space.refuse = true;
  for (int i = 0; i < 127; ++i) ASSERT_NE(w.manager().take(0).address, 0u) << "a superpage of 2 MiB";
  EXPECT_EQ(w.manager().take(0).address, 0u);
  EXPECT_EQ(w.manager().headers().made(), 2u) << "the header of the refused one is kept";
  w.manager().give(first.name, 0);
  EXPECT_EQ(w.manager().take(0).address, first.address);
}

// Any address of a page block leads to its header, those of other pages to none: section 3.1.1.
template <Build kWhich> void check_bibop() {
  PagesWorld<kWhich> w;
  std::vector<std::pair<uptr, unsigned>> blocks;
  std::vector<u32> names;
  for (unsigned order : {4u, 0u, 2u, 1u, 3u, 0u}) {
    const auto taken = w.pages->take(order);
    blocks.emplace_back(taken.address, order);
    names.push_back(taken.name);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (uptr offset = 0; offset < page_block_bytes(blocks[i].second); offset += 1000)
      ASSERT_EQ(bibop::find(w.pages->header(names[i]), blocks[i].first + offset), blocks[i].first);
  std::size_t walked = 0;
  w.pages->each_block([&](uptr) { ++walked; });
  EXPECT_EQ(walked, blocks.size());
  w.pages->give(names[1], 0);
  EXPECT_EQ(bibop::find(w.pages->header(names[1]), blocks[1].first + 5000), 0u);
}
TEST(Bibop, LeadsFromEveryAddressToThePageBlocksHeader) {
  check_bibop<kHeaderless>();
  check_bibop<kSuperpages>();
}

}  // namespace
}  // namespace freeway::streamflow
