// SPDX-License-Identifier: MIT
//
// inside.h: what the simulator reads of the malloc that no exported function says. For quiet moments: nothing happens
// meanwhile.
#ifndef FREEWAY_SIMULATOR_INSIDE_H
#define FREEWAY_SIMULATOR_INSIDE_H

#include <cstddef>
#include <cstdint>

struct SimSampled {
  std::uintptr_t address;
  std::size_t bytes;
};

extern "C" {
// Calls f(context, sampled) for each live block that the profile follows.
void sim_each_sampled(void (*f)(void* context, SimSampled sampled), void* context);
// Samples that found no room, so far.
std::uint64_t sim_lost_samples();
// Calls f(context, address, bytes) for runs of free frames that are said to read as zero.
void sim_each_clean(void (*f)(void* context, std::uintptr_t address, std::size_t bytes), void* context);
// Samples so far.
std::uint64_t sim_samples();
// Whether malloc's fast path has the form that the profile asks for.
bool sim_has_form();
// A free frame below the place where the search begins; 0: there is none.
std::uintptr_t sim_hidden_frame();
// A table of a profile that is small: blocks meet in it. Before the library's first call.
void sim_small_profile();
// Calls f(context, address, bytes) for the holes of arenas, which belong to others.
void sim_each_hole(void (*f)(void* context, std::uintptr_t address, std::size_t bytes), void* context);
// The page map's leaves: bytes of each, and how many there are.
std::size_t sim_leaf_bytes();
std::size_t sim_leaves();
// What limits count now, and the hard limit, in frames.
std::uint64_t sim_held_frames();
std::uint64_t sim_hard_limit();
// Frames that stay dirty since the program asked for memory that is ready.
std::uint64_t sim_kept_frames();
// Frames that free and dirty ones are counted as, and that there are.
std::uint64_t sim_dirty_counted();
std::uint64_t sim_dirty_found();
}

#endif  // FREEWAY_SIMULATOR_INSIDE_H
