// SPDX-License-Identifier: MIT
// superblock_clients_model.cc: all small clients of src/superblock/superblocks.h.
//
// Clients   each program of two or three threads whose calls are malloc with and without a slab, of a block or a batch,
//           free of the oldest or newest, handing one over, letting the slab's superblock go, trimming it, or all, in
//           each situation of superblock_scenarios.cc. Threads that have the same are interchangeable: of programs that
//           differ in that, one is run
// Promises  superblock_program.h's at the end, superblock_invariant.h's after each write
// Bounds    all of three calls together, up to 500 executions each (11,341 of 12,141 programs are exhausted). Long, in
//           `make prove` (DISABLED_): of four calls some that are chosen at random (FREEWAY_TEST_SEED), up to 100,000
//           executions each. Weak memory, source-DPOR
#include <gtest/gtest.h>

#include "tests/superblock/superblock_scenarios.h"

namespace freeway::model {
namespace {

TEST(SuperblockClients, PromisesHoldForClientsOfThreeCalls) {
  expect_all_hold(limited(superblock_clients(2, 3), 500));
  expect_all_hold(limited(superblock_clients(3, 3), 500));
}

TEST(SuperblockClients, DISABLED_PromisesHoldForManyOfFourCalls) {
  expect_all_hold(limited(sample(superblock_clients(2, 4), 5000), 100000));
  expect_all_hold(limited(sample(superblock_clients(3, 4), 500), 100000));
}

}  // namespace
}  // namespace freeway::model
