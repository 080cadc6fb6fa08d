// SPDX-License-Identifier: MIT
// waste.h: whose live blocks keep superblocks that are mostly free: the waste of each size class, for each stack.
//
// The waste of a class is known: the bytes of its superblocks less those of its live blocks. All live blocks of a
// superblock have the same share in what it wastes, and for each sampled one the dump has that share ("#pin"): so a
// line's shares, scaled as its blocks are (estimate.h), say what it pins. The class's waste is divided among its lines
// as these are: then the sum is what is known, and chance only moves it from one stack to another.
//
// Of some blocks it is not known where they lie: they count as the others of their line; where none of these is known,
// as the class's blocks in the mean.
#pragma once

#include <cstdint>

#include "dump.h"

namespace freeway_profile {

// Fills in what each sample wastes.
void attribute_waste(Dump& dump);

// Whether the dump has shares for less than half of its blocks that have any: then these are hardly more than a count
// of live blocks.
bool lacks_shares(const Dump& dump);

// Bytes: of all classes.
double waste_of(const Dump& dump);

}  // namespace freeway_profile
