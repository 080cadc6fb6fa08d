// SPDX-License-Identifier: MIT
//
// double_free SIZE: free(a); free(a). Exploitable: the block is later handed out twice.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  settle(size);
  Block& block = take(size);
  give(block);
  begin();
  free(hide(block.start));
  done();
  aftermath(size);
  unharmed();
}
