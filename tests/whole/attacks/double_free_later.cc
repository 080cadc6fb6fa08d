// SPDX-License-Identifier: MIT
//
// double_free_later SIZE [BETWEEN]: free(a), other frees, free(a). Eight frees go before: they fill caches of a thread
// that are searched for the block (glibc's). Exploitable: the block is later handed out twice.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  const int between = argc > 2 ? atoi(argv[2]) : 1;
  settle(size);
  const int first = count;
  for (int i = 0; i < 8 + 1 + between; ++i) take(size);
  Block& barrier = take(size);  // what follows does not join the end of the heap
  (void)barrier;
  for (int i = 0; i < 8 + 1 + between; ++i) give(blocks[first + i]);
  begin();
  free(hide(blocks[first + 8].start));
  done();
  aftermath(size);
  unharmed();
}
