// SPDX-License-Identifier: MIT
// arenas.h: the numbers of arenas. There is one heap, arena 0. The others are numbers that programs may ask for and give back;
// what they allocate with them is in the same heap.
//
// Word      g_numbers[i]: a bit for each number that was given out
// Moves     create: 0 -> 1 (fetch_or)   destroy: 1 -> 0 (fetch_and). Nothing else depends on them, so all is relaxed
// Progress  wait-free. Lost if killed: a number
#pragma once

#include <cstddef>

namespace freeway_jemalloc {

constexpr unsigned kAllArenas = 4096;                  // MALLCTL_ARENAS_ALL
constexpr unsigned kDestroyedArenas = kAllArenas + 1;  // MALLCTL_ARENAS_DESTROYED
constexpr unsigned kMostArenas = kAllArenas - 1;

// A new number; 0 if there is none left.
unsigned create_arena();
// False if `number` was not given out.
bool destroy_arena(std::size_t number);

bool is_arena(std::size_t number);
// The largest number and one.
unsigned arena_count();

}  // namespace freeway_jemalloc
