// SPDX-License-Identifier: MIT
//
// usable_size_freed SIZE: malloc_usable_size of a block that is free. Exploitable: it damages something, which it does
// nowhere; the table says who notices.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  settle(size);
  Block& block = take(size);
  give(block);
  begin();
  const size_t usable = malloc_usable_size(hide(block.start));
  done();
  aftermath(size);
  unharmed(usable == 0 ? "0" : "a size");
}
