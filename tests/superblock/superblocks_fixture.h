// SPDX-License-Identifier: MIT
//
// superblocks_fixture.h: superblocks of a few small classes over TestBacking, and what tests of them do again and
// again.
#ifndef FREEWAY_TESTS_UNIT_SUPERBLOCKS_FIXTURE_H
#define FREEWAY_TESTS_UNIT_SUPERBLOCKS_FIXTURE_H

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/superblock/test_backing.h"

namespace freeway::test {

class SuperblocksFixture : public testing::Test {
 protected:
  using Backing = TestBacking<TestEnv, kTestClasses>;
  static constexpr unsigned kOneBlock = 3;  // the class whose superblocks have one block
  using Blocks = std::vector<void*>;

  void SetUp() override { make(); }
  void TearDown() override { kernel().reset(); }

  void make(unsigned nodes = 1) {
    kernel().reset();
    backing_ = std::make_unique<Backing>();
    superblocks_ = std::make_unique<Superblocks<TestEnv, Backing>>();
    superblocks().init(&backing(), nodes);
    kept_.clear();
  }
  Backing& backing() { return *backing_; }
  Superblocks<TestEnv, Backing>& superblocks() { return *superblocks_; }

  Blocks take(u32 d, unsigned want) {
    Blocks blocks(want);
    blocks.resize(superblocks().take(d, want, blocks.data()));
    return blocks;
  }
  Blocks take_all(u32 d) {
    Blocks all;
    for (Blocks some = take(d, 64); !some.empty(); some = take(d, 64)) all.insert(all.end(), some.begin(), some.end());
    return all;
  }
  void keep(const Blocks& blocks) { kept_.insert(kept_.end(), blocks.begin(), blocks.end()); }

  // Frees blocks of class c, grouped by superblock and word as the cache does it.
  void free(unsigned c, const Blocks& blocks) {
    std::map<std::pair<uptr, unsigned>, std::pair<u32, u64>> groups;
    for (void* block : blocks) {
      const auto [d, span] = backing().find(block);
      const u64 index = (reinterpret_cast<uptr>(block) - span) / Backing::size_class(c).size;
      auto& group = groups[{span, static_cast<unsigned>(index / 64)}];
      group.first = d;
      group.second |= u64{1} << (index % 64);
    }
    for (const auto& [where, group] : groups)
      EXPECT_EQ(superblocks().free_group(c, group.first, where.first, where.second, group.second), 0u);
  }

  std::size_t listed(unsigned c) { return count(c, false); }
  std::size_t pooled(unsigned c) { return count(c, true); }

 private:
  std::size_t count(unsigned c, bool pooled_ones) {
    std::size_t n = 0;
    superblocks().each_in_lists(c, [&](u32, bool pool) {
      n += pool == pooled_ones;
      return true;
    });
    return n;
  }

  std::unique_ptr<Backing> backing_;
  std::unique_ptr<Superblocks<TestEnv, Backing>> superblocks_;
  Blocks kept_;
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_UNIT_SUPERBLOCKS_FIXTURE_H
