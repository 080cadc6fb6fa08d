// SPDX-License-Identifier: MIT
// address.h: what an address of another process is: the answer of freeway_explain, from outside.
#pragma once

#include <string>

#include "freeway/freeway.h"
#include "heap/heap.h"

namespace freeway_command {

struct Explained : freeway_explanation_t {
  std::string words;  // `what`, with the slab
  // Of a small block, and of the unused end of a superblock.
  const Superblock* superblock = nullptr;
  std::uint32_t index = 0;
};

Explained explain(const Heap& heap, std::uint64_t address);
// Whether a block of a superblock is live, and if not, in whose hands it is, as words.
freeway_state_t state_of(const Heap& heap, const Superblock& superblock, std::uint32_t index, std::string& what);

}  // namespace freeway_command
