// SPDX-License-Identifier: MIT
//
// overflow SIZE LENGTH: a block is filled to its end, all that malloc_usable_size grants, and LENGTH bytes further. The
// bytes enlarge the next chunk, where there are chunks. Then both neighbours are freed and allocations of both sizes
// follow. Exploitable: blocks overlap, or the neighbour's contents changed and nobody noticed until all of this was
// over.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  const size_t length = argc > 2 ? strtoul(argv[2], nullptr, 10) : 1;
  settle(size);
  Block& block = before_nearest();
  Block* const next = nearest_behind(block);
  const size_t forged = larger_chunk(block.size);
  const bool changed = hit(block.start + block.size, length);
  begin();
  for (size_t i = 0; i < length; ++i)
    hide(block.start)[block.size + i] = i < sizeof forged ? static_cast<unsigned char>(forged >> 8 * i) : 'A';
  done();
  after_overflow(block, next, changed);
}
