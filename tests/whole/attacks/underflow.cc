// SPDX-License-Identifier: MIT
//
// underflow SIZE: the 16 bytes before a block are overwritten: its header, where there is one, or the end of the block
// before it. The number makes the chunk larger where there are chunks. Then it is freed, and allocations of both sizes
// follow. Exploitable: blocks overlap, or the neighbour's contents changed and nobody noticed until all of this was
// over.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  settle(size);
  Block& before = before_nearest();
  Block& block = *nearest_behind(before);
  const size_t forged[2] = {0, larger_chunk(block.size)};
  const bool changed = hit(block.start - sizeof forged, sizeof forged);
  begin();
  memcpy(hide(block.start) - sizeof forged, forged, sizeof forged);
  done();
  after_overflow(before, &block, changed);
}
