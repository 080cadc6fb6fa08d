// SPDX-License-Identifier: MIT
// unwind.h: the callers in a copy of a stack, for programs without frame pointers.
#pragma once

#include "dump.h"
#include "modules.h"

namespace freeway_profile {

// Gives each sample that has a copy of its stack the addresses found in it. A copy is believed if the address that the
// sample has already is among them; else the sample keeps what it has. Says in the dump's warnings of how many.
void unwind_copies(Dump& dump, const Modules& modules);

}  // namespace freeway_profile
