// SPDX-License-Identifier: MIT
//
// realloc_freed SIZE: realloc of a block that is free, to twice its size. Exploitable: a block is later handed out
// twice.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  settle(size);
  Block& block = take(size);
  give(block);
  begin();
  void* moved = realloc(hide(block.start), 2 * size);
  done();
  if (moved != nullptr) own(moved, 2 * size);
  aftermath(size);
  for (int i = 0; i < 64; ++i) take(2 * size);
  unharmed();
}
