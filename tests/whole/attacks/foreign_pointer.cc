// SPDX-License-Identifier: MIT
//
// foreign_pointer SIZE: free of a pointer to a static array of zeros. Exploitable: malloc hands the array out.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  settle(size);
  begin();
  free(hide(target + 4096));
  done();
  aftermath(size);
  unharmed();
}
