// SPDX-License-Identifier: MIT
// superblock_scenarios.h: what the superblock models run: situations, and what threads do in them.
#pragma once

#include <vector>

#include "tests/explorer/scenarios.h"

namespace freeway::model {

// Chosen by hand, one for each way in which the protocol can be hurt.
std::vector<Scenario> superblock_scenarios();
// All clients of so many threads that make so many calls together, in each situation; of those that differ only in
// which thread is which, one.
std::vector<Scenario> superblock_clients(int threads, int calls);
// Longer scripts, walked through at random: FREEWAY_TEST_SEED and FREEWAY_MODEL_LIMIT (walks).
std::vector<Scenario> superblock_long_scripts();
// With actions that the shipped code does not have: how earlier forms of the protocol behaved. They must fail.
std::vector<Scenario> purging_without_holding();
std::vector<Scenario> letting_go_after_one_scan();

}  // namespace freeway::model
