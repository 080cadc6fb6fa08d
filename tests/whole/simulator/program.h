// SPDX-License-Identifier: MIT
//
// program.h: the program of a seed: what its threads do, what they know of their blocks, and what must hold.
#ifndef FREEWAY_SIMULATOR_PROGRAM_H
#define FREEWAY_SIMULATOR_PROGRAM_H

#include <cstdint>
#include <string>

namespace freeway::sim {

// Runs a seed. The failure; empty: all held.
std::string run_seed(std::uint64_t seed, bool trace);

// What seeds did, so far.
struct Totals {
  std::uint64_t calls = 0, events[8] = {}, children = 0, refusals = 0, lost = 0;
};
extern Totals totals;

}  // namespace freeway::sim

#endif  // FREEWAY_SIMULATOR_PROGRAM_H
