// SPDX-License-Identifier: MIT
//
// stale_pointer SIZE [ALLOCATIONS]: a block is freed, the victim allocates ALLOCATIONS blocks of the size (64), and the
// attacker writes through the old pointer. Exploitable: it changed one of the victim's blocks.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  const int allocations = argc > 2 ? atoi(argv[2]) : 64;
  settle(size);
  unsigned char* old = take(size).start;
  give(blocks[count - 1]);
  for (int i = 0; i < allocations; ++i) take(size);
  begin();
  memset(hide(old), 0xee, 16);
  done();
  check_contents();
  aftermath(size);
  unharmed();
}
