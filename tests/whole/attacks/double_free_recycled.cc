// SPDX-License-Identifier: MIT
//
// double_free_recycled SIZE: free(a), then allocations until one of them is a again; then the old pointer is freed.
// The owner of the block does not know. Exploitable: it is handed out to somebody else, while he has it. Where it does
// not come back within the attacker's tries, the fault is a plain double free.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  settle(size);
  unsigned char* old = take(size).start;
  give(blocks[count - 1]);
  for (int i = 0; i < kMany; ++i)
    if (take(size).start == old) break;
  begin();
  free(hide(old));
  done();
  aftermath(size);
  unharmed();
}
