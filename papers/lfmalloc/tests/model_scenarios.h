// SPDX-License-Identifier: MIT
// model_scenarios.h: what LFMalloc's models run; the letters are explained in model_world.h.
#pragma once

#include <string>
#include <vector>

#include "papers/lfmalloc/tests/model_world.h"
#include "tests/explorer/scenarios.h"

namespace freeway::lfmalloc::test {

// Chosen by hand, one for each way in which the protocol can be hurt.
std::vector<Scenario> section_scenarios();
std::vector<Scenario> cas_scenarios();
std::vector<Scenario> mixed_scenarios();
std::vector<Scenario> all_scenarios();
// Free as the paper prints it: destroys superblocks that are on line, or that malloc takes meanwhile. They must fail.
std::vector<Scenario> printed_free_of_a_superblock_on_line();
std::vector<Scenario> printed_free_of_a_superblock_off_line();
// Every pair of short scripts in every situation, with heaps of this kind.
std::vector<Scenario> pairs(Kind kind);
// Longer scripts, walked through at random: FREEWAY_TEST_SEED, and so many walks each.
std::vector<Scenario> long_scripts(std::uint64_t walks);

}  // namespace freeway::lfmalloc::test
