// SPDX-License-Identifier: MIT
//
// neighbour_metadata SIZE plain|letters: 256 bytes behind a live block are overwritten, over its neighbours, of which
// every second is free, with the attacker's address or with letters. Then frees and allocations follow. What the
// program's own blocks contain there is the attacker's by now and not looked at. Exploitable: malloc hands out what the
// attacker named, or a block twice, or damages other blocks.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  const bool letters = argc > 2 && strcmp(argv[2], "letters") == 0;
  settle(size, true);
  Block& block = before_nearest();
  unsigned char* const end = block.start + block.size;
  hit(end, 256);
  const uintptr_t wanted = letters ? 0x4141414141414141u : address(target + 4096);
  begin();
  for (int i = 0; i < 256; i += sizeof wanted) memcpy(hide(end) + i, &wanted, sizeof wanted);
  done();
  for (int i = 1; i < 32; i += 2) give(blocks[i]);
  aftermath(size);
  unharmed();
}
