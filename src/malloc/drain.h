// SPDX-License-Identifier: MIT
// drain.h: giving back what caches and superblocks hold: drain.cc at once, idle.cc while little happens.
#pragma once

#include "malloc/heap.h"

namespace freeway {

// Takes caches apart; false if some could not be had.
bool drain(Heap& heap);
// Drains, and gives back the free pages of superblocks.
void trim(Heap& heap);
void purge_superblocks(Heap& heap);
// All superblocks that are listed now are still to be looked at by purge_class.
void flip_lists(Heap& heap);
// Gives back free pages of the class's superblocks that were listed when lists were flipped last, until that is all or
// the effort is spent: a byte for each given back, and something for each look. False if the effort ended it.
bool purge_class(Heap& heap, unsigned c, std::size_t& effort);
// Memory was refused: gives back all that can be.
void scavenge();

// Does one of trim_parts() parts of a trim, the next one, or as much of it as `effort` lasts for. Whether that part is
// done.
bool trim_part(Heap& heap, std::size_t& effort);
unsigned trim_parts(const Heap& heap);
// From now on the helper (background/helper.h) works for the process's heap.
void start_background();

}  // namespace freeway
