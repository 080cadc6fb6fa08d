// SPDX-License-Identifier: MIT
//
// size_confusion SIZE OTHER all|half: many blocks of SIZE are freed, all or every second, and as many of OTHER bytes
// allocated. Exploitable: one of them overlaps a freed one, so that an old pointer of one kind is now one into another
// kind.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  const size_t other = argc > 2 ? strtoul(argv[2], nullptr, 10) : 2 * size;
  const int step = argc > 3 && strcmp(argv[3], "half") == 0 ? 2 : 1;
  for (int i = 0; i < kMany; ++i) take(size);
  for (int i = 0; i < kMany; i += step) give(blocks[i]);
  begin();
  done();
  for (int i = 0; i < kMany; ++i) {
    Block& block = take(other);
    for (int old = 0; old < kMany; old += step)
      if (overlap(blocks[old], block.start, block.size)) exploited("a block of another size lies over a freed one");
  }
  unharmed();
}
