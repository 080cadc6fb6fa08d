// SPDX-License-Identifier: MIT
//
// nodes_test.cc: freeway/buddy.h's buddies for NUMA nodes on pretended machines (pretended_kernel.h): 1, 4, 8 and more
// nodes than there is room for, with holes in their numbers, and a kernel that knows of none. Each buddy's memory is
// placed on its node, and a thread gets memory of the node whose CPU it is on.
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "freeway/buddy.h"
#include "tests/support/proof.h"
#include "tests/whole/machines/pretended_kernel.h"

namespace freeway::test {
namespace {

using Numbers = std::vector<unsigned>;

constexpr freeway_buddy_options_t kOptions = {6, 4, 4096, 0, 0};  // 128 KiB a node
constexpr std::size_t kBlocks = 32;                               // of 4096 bytes, of each node

// CPU c is on the node numbers[c % count].
Numbers numbers;
unsigned node_of(unsigned cpu) { return numbers[cpu % numbers.size()]; }

class Nodes : public testing::Test {
 protected:
  void TearDown() override {
    if (nodes_ != nullptr) { EXPECT_EQ(freeway_buddy_nodes_destroy(nodes_), 0); }
    pretended_kernel().nodes_error = 0;
  }

  void create(const Numbers& known) {
    PretendedKernel& kernel = pretended_kernel();
    kernel.nodes.reset();
    for (const unsigned number : known) kernel.nodes.set(number);
    for (auto& bytes : kernel.placed) bytes = 0;
    numbers = known;
    kernel.node_of_cpu = node_of;
    nodes_ = freeway_buddy_nodes_create(&kOptions, 0);
    ASSERT_NE(nodes_, nullptr);
  }

  // The index of the buddy that takes the block back; it is given back.
  unsigned give_back(void* block) {
    for (unsigned i = 0; i < freeway_buddy_nodes_count(nodes_); ++i)
      if (freeway_buddy_free(freeway_buddy_nodes_buddy(nodes_, i, nullptr), block) == 0) return i;
    return ~0u;
  }

  // On each node's CPUs: all of its memory, then that of others.
  void every_node_serves_its_own(const Numbers& known) {
    ASSERT_EQ(freeway_buddy_nodes_count(nodes_), known.size());
    for (unsigned cpu = 0; cpu < known.size(); ++cpu) {
      int placed = 0;
      ASSERT_NE(freeway_buddy_nodes_buddy(nodes_, cpu, &placed), nullptr);
      EXPECT_NE(placed, 0) << known[cpu];
      EXPECT_GE(pretended_kernel().placed[known[cpu] % 64], kBlocks * 4096) << known[cpu];
      run_on(cpu, cpu);
      std::vector<void*> blocks;
      for (std::size_t i = 0; i < kBlocks; ++i) {
        blocks.push_back(freeway_buddy_nodes_alloc(nodes_, 4096, FREEWAY_BUDDY_LOCAL_ONLY));
        ASSERT_NE(blocks.back(), nullptr);
      }
      EXPECT_EQ(freeway_buddy_nodes_alloc(nodes_, 4096, FREEWAY_BUDDY_LOCAL_ONLY), nullptr);
      void* elsewhere = freeway_buddy_nodes_alloc(nodes_, 4096, FREEWAY_BUDDY_PREFERRED);
      EXPECT_EQ(elsewhere == nullptr, known.size() == 1);
      if (elsewhere != nullptr) { EXPECT_NE(give_back(elsewhere), cpu); }
      for (void* block : blocks) EXPECT_EQ(give_back(block), cpu);
    }
    proof("machines", "NUMA nodes of buddies, pretended", "nodes", known.size());
  }

  freeway_buddy_nodes_t* nodes_ = nullptr;
};

TEST_F(Nodes, OneFourAndEight) {
  for (const unsigned count : {1u, 4u, 8u}) {
    Numbers known;
    for (unsigned n = 0; n < count; ++n) known.push_back(n);
    ASSERT_NO_FATAL_FAILURE(create(known));
    ASSERT_NO_FATAL_FAILURE(every_node_serves_its_own(known));
    EXPECT_EQ(freeway_buddy_nodes_destroy(nodes_), 0);
    nodes_ = nullptr;
  }
}

TEST_F(Nodes, HolesInTheirNumbers) {
  const Numbers known = {0, 2, 5, 7, 16, 33, 126, 255};
  ASSERT_NO_FATAL_FAILURE(create(known));
  every_node_serves_its_own(known);
}

TEST_F(Nodes, MoreThanThereIsRoomFor) {
  Numbers known;
  for (unsigned n = 0; n < 200; ++n) known.push_back(n);
  ASSERT_NO_FATAL_FAILURE(create(known));
  EXPECT_EQ(freeway_buddy_nodes_count(nodes_), 64u);
  for (unsigned cpu = 0; cpu < 200; ++cpu) {  // nodes without a buddy share those of others
    run_on(cpu, cpu);
    void* block = freeway_buddy_nodes_alloc(nodes_, 4096, FREEWAY_BUDDY_LOCAL_ONLY);
    ASSERT_NE(block, nullptr) << cpu;
    EXPECT_LT(give_back(block), 64u);
  }
}

TEST_F(Nodes, ANodeThatComesLater) {
  ASSERT_NO_FATAL_FAILURE(create({0, 1}));
  numbers = {900};
  run_on(3, 3);
  void* block = freeway_buddy_nodes_alloc(nodes_, 4096, FREEWAY_BUDDY_LOCAL_ONLY);
  ASSERT_NE(block, nullptr);
  EXPECT_LT(give_back(block), 2u);
}

TEST_F(Nodes, AKernelThatKnowsOfNone) {
  pretended_kernel().nodes_error = ENOSYS;
  ASSERT_NO_FATAL_FAILURE(create({0}));
  EXPECT_EQ(freeway_buddy_nodes_count(nodes_), 1u);
  void* block = freeway_buddy_nodes_alloc(nodes_, 4096, FREEWAY_BUDDY_INTERLEAVE);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(freeway_buddy_nodes_free(nodes_, block), 0);
}

}  // namespace
}  // namespace freeway::test
