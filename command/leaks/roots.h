// SPDX-License-Identifier: MIT
// roots.h: where a program keeps the pointers that it begins with.
#pragma once

#include "heap/samples.h"

namespace freeway_command {

struct Range {
  std::uint64_t begin, end;
};

// The memory in which a pointer to a block holds it: all that the program can write to, without what is Freeway's own
// (blocks too, but for those of heaps of the program), the part of each stack that is not in use, and stacks of threads
// that have ended. By address.
std::vector<Range> roots_of(const Heap& heap, const Samples& samples, const std::vector<Thread>& threads);

}  // namespace freeway_command
