// SPDX-License-Identifier: MIT
// nodes_test.cc: a buddy for each NUMA node: which node a request goes to, with a pretended topology, and the whole on
// what this machine has (often one node; then several buddies share it).
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "papers/nbbs/nodes.h"

namespace freeway::nbbs {
namespace {

std::vector<unsigned> tried(int policy, unsigned local, unsigned turn, unsigned count) {
  std::vector<unsigned> all;
  for (unsigned attempt = 0;; ++attempt) {
    const unsigned index = node_to_try(policy, attempt, local, turn, count);
    if (index == count) return all;
    all.push_back(index);
  }
}

TEST(NodeChoice, LocalOnlyTriesTheThreadsNodePreferredAlsoTheOthers) {
  EXPECT_EQ(tried(FREEWAY_BUDDY_LOCAL_ONLY, 2, 0, 4), (std::vector<unsigned>{2}));
  EXPECT_EQ(tried(FREEWAY_BUDDY_PREFERRED, 2, 0, 4), (std::vector<unsigned>{2, 3, 0, 1}));
  EXPECT_EQ(tried(FREEWAY_BUDDY_PREFERRED, 0, 3, 1), (std::vector<unsigned>{0}));
  EXPECT_EQ(tried(FREEWAY_BUDDY_INTERLEAVE, 2, 1, 3), (std::vector<unsigned>{1, 2, 0})) << "by turn, not by place";
}

constexpr freeway_buddy_options_t kOptions = {6, 4, 4096, 0, 0};  // 128 KiB a node

// Four nodes with the kernel's numbers 0, 2, 5 and 7, in plain memory.
class FourNodes : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(SharedBuddy::read(kOptions, &settings_));
    layout_ = Nodes::layout(settings_, 4, 4096);
    memory_.resize(layout_.bytes + 4096);
    nodes_ = reinterpret_cast<Nodes*>(align_up(reinterpret_cast<uptr>(memory_.data()), 4096));
    constexpr u8 kIds[] = {0, 2, 5, 7};
    nodes_->init(settings_, layout_, kIds, 4);
  }
  unsigned node_of(void* block) {
    for (unsigned i = 0; i < 4; ++i)
      if (nodes_->buddy(i).manages(block)) return i;
    return 4;
  }
  Settings settings_;
  Nodes::Layout layout_;
  std::vector<char> memory_;
  Nodes* nodes_;
};

TEST_F(FourNodes, KernelNumbersAreMappedToIndexes) {
  EXPECT_EQ(nodes_->index_of(0), 0U);
  EXPECT_EQ(nodes_->index_of(5), 2U);
  EXPECT_EQ(nodes_->index_of(7), 3U);
  EXPECT_LT(nodes_->index_of(3), 4U) << "a node that came later";
}

TEST_F(FourNodes, LocalOnlyFailsWherePreferredGoesElsewhere) {
  void* block;
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(nodes_->take(4096, FREEWAY_BUDDY_LOCAL_ONLY, 1, &block), 0);
    EXPECT_EQ(node_of(block), 1U);
  }
  EXPECT_EQ(nodes_->take(4096, FREEWAY_BUDDY_LOCAL_ONLY, 1, &block), ENOMEM);
  ASSERT_EQ(nodes_->take(4096, FREEWAY_BUDDY_PREFERRED, 1, &block), 0);
  EXPECT_EQ(node_of(block), 2U);
  EXPECT_EQ(nodes_->take(4096, 3, 1, &block), EINVAL);
}

TEST_F(FourNodes, InterleavingGoesAround) {
  int count[4] = {};
  for (int i = 0; i < 40; ++i) {
    void* block;
    ASSERT_EQ(nodes_->take(4096, FREEWAY_BUDDY_INTERLEAVE, 3, &block), 0);
    ++count[node_of(block)];
  }
  for (int each : count) EXPECT_EQ(each, 10);
}

// "a certain thread, during the execution, changes node but it has to free memory in the old node"
TEST_F(FourNodes, BlocksOfAnyNodeAreFreedFromAnywhere) {
  std::vector<void*> blocks(128);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    ASSERT_EQ(nodes_->take(4096, FREEWAY_BUDDY_PREFERRED, static_cast<unsigned>(i % 4), &blocks[i]), 0);
  for (void* block : blocks) EXPECT_EQ(nodes_->give(block), 0);
  for (void* block : blocks) EXPECT_EQ(nodes_->give(block), EINVAL);
  char outside;
  EXPECT_EQ(nodes_->give(&outside), EINVAL);
  EXPECT_EQ(nodes_->give(nodes_), EINVAL);
}

TEST(NodesOfThisMachine, ShareTheirMappingWithChildren) {
  freeway_buddy_nodes_t* nodes = freeway_buddy_nodes_create(&kOptions, 0);
  ASSERT_NE(nodes, nullptr);
  const unsigned count = freeway_buddy_nodes_count(nodes);
  ASSERT_GE(count, 1U);
  for (unsigned i = 0; i < count; ++i) {
    int placed = -1;
    ASSERT_NE(freeway_buddy_nodes_buddy(nodes, i, &placed), nullptr);
    std::printf("  node %u of %u: %s\n", i, count, placed != 0 ? "placed" : "the kernel refused to place it");
  }
  errno = 0;
  EXPECT_EQ(freeway_buddy_nodes_buddy(nodes, count, nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  char* block = static_cast<char*>(freeway_buddy_nodes_alloc(nodes, 8192, FREEWAY_BUDDY_PREFERRED));
  ASSERT_NE(block, nullptr);
  const pid_t child = fork();
  if (child == 0) {
    memset(block, 'c', 8192);
    void* other = freeway_buddy_nodes_alloc(nodes, 4096, FREEWAY_BUDDY_PREFERRED);
    _exit(other != nullptr && other != block && freeway_buddy_nodes_free(nodes, block) == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(block[8191], 'c') << "the child's writes are seen: no copy-on-write";
  EXPECT_EQ(freeway_buddy_nodes_free(nodes, block), -1) << "the child's free, too";
  EXPECT_EQ(freeway_buddy_nodes_destroy(nodes), 0);
}

TEST(NodesOfThisMachine, WhatMakesNoSenseIsRefused) {
  errno = 0;
  const freeway_buddy_options_t bad = {0, 4, 4096, 0, 0};
  EXPECT_EQ(freeway_buddy_nodes_create(&bad, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(freeway_buddy_nodes_create(&kOptions, 65), nullptr);
  EXPECT_EQ(freeway_buddy_nodes_create(&kOptions, ~0U), nullptr);
  EXPECT_EQ(freeway_buddy_nodes_create(nullptr, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(NodesOfThisMachine, ANullHandleIsRefusedByEveryFunction) {
  int placed = 0;
  errno = 0;
  EXPECT_EQ(freeway_buddy_nodes_destroy(nullptr), -1);
  EXPECT_EQ(freeway_buddy_nodes_count(nullptr), 0U);
  EXPECT_EQ(freeway_buddy_nodes_buddy(nullptr, 0, &placed), nullptr);
  EXPECT_EQ(freeway_buddy_nodes_alloc(nullptr, 16, FREEWAY_BUDDY_PREFERRED), nullptr);
  EXPECT_EQ(freeway_buddy_nodes_free(nullptr, &placed), -1);
  EXPECT_EQ(freeway_buddy_nodes_free(nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(NodesOfThisMachine, BadPoliciesSizesAndPointersAreRefused) {
  freeway_buddy_nodes_t* nodes = freeway_buddy_nodes_create(&kOptions, 2);
  ASSERT_NE(nodes, nullptr);
  for (const int policy : {-1, 3, INT32_MIN, INT32_MAX}) {
    errno = 0;
    EXPECT_EQ(freeway_buddy_nodes_alloc(nodes, 16, policy), nullptr) << policy;
    EXPECT_EQ(errno, EINVAL) << policy;
  }
  for (const size_t size : {size_t{PTRDIFF_MAX} - 1, size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} + 1, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(freeway_buddy_nodes_alloc(nodes, size, FREEWAY_BUDDY_INTERLEAVE), nullptr) << size;
    EXPECT_EQ(errno, ENOMEM) << size;
  }
  char elsewhere[16];
  char* block = static_cast<char*>(freeway_buddy_nodes_alloc(nodes, 1, FREEWAY_BUDDY_PREFERRED));
  ASSERT_NE(block, nullptr);
  for (void* bad : {static_cast<void*>(elsewhere), static_cast<void*>(nodes), static_cast<void*>(block + 1),
                    reinterpret_cast<void*>(uintptr_t{16}), reinterpret_cast<void*>(~uintptr_t{15})}) {
    errno = 0;
    EXPECT_EQ(freeway_buddy_nodes_free(nodes, bad), -1) << bad;
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(freeway_buddy_nodes_free(nodes, block), 0);
  EXPECT_EQ(freeway_buddy_nodes_free(nodes, block), -1) << "a double free";
  EXPECT_EQ(freeway_buddy_nodes_destroy(nodes), 0);
}

}  // namespace
}  // namespace freeway::nbbs
