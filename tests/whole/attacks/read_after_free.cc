// SPDX-License-Identifier: MIT
//
// read_after_free SIZE: a freed block is read. Exploitable: one of its words is an address near the block, or gives one
// away: as it is, or xored with the block's own address / 4096. What the program itself had written there is no
// address; whether it is still there is said.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  settle(size);
  take(size);
  Block& block = take(size);
  give(blocks[count - 2]);
  give(block);
  begin();
  bool kept = true;
  const uintptr_t page = address(block.start) >> 12;
  for (size_t i = 0; i + sizeof(uintptr_t) <= block.size; i += sizeof(uintptr_t)) {
    uintptr_t word;
    memcpy(&word, hide(block.start) + i, sizeof word);
    uintptr_t before;
    memset(&before, block.fill, sizeof before);
    if (word == before) continue;
    kept = false;
    if (word != 0 && (word >> 30 == page >> 18 || word == page || (word ^ page) >> 30 == page >> 18))
      exploited("a freed block names addresses of the heap");
  }
  done();
  unharmed(kept ? "the old contents are there" : "the old contents are not all there");
}
