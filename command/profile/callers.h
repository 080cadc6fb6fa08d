// SPDX-License-Identifier: MIT
// callers.h: a profile from the bottom up: the functions that allocate, below each those that call it, and so on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stacks.h"

namespace freeway_profile {

// Which frames of a stack are shown, the innermost first. Of calls within the C++ library only the outermost is: what
// the program called.
std::vector<std::size_t> frames_to_show(const Stacks& stacks, const Stack& stack);

// A function that allocates, or one of its callers: what all stacks through it have.
struct Caller {
  Stack sum;               // of its function alone, without a line; of none where the stack is not known
  unsigned depth = 0;      // 0: it allocates
  bool is_only = false;    // caller of the one before it, whose figures are its own
  std::size_t others = 0;  // not 0: it stands for so many smaller callers, which are not shown
};

// The `most` functions that `measure` counts most of, the largest first, each before its callers; `functions`: how many
// there are. Callers that have less than a hundredth of everything are left out.
std::vector<Caller> bottom_up(const Stacks& stacks, Measure measure, std::size_t most, std::size_t& functions);

}  // namespace freeway_profile
