// SPDX-License-Identifier: MIT
//
// next_address SIZE: after a fixed history, the distance of the next block from the last one, and its address: the
// driver runs many processes and says how often two of them agree.
#include <stdio.h>

#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  settle(size, true);
  const uintptr_t last = address(take(size).start);
  const uintptr_t next = address(take(size).start);
  char line[64];
  snprintf(line, sizeof line, "%ld %lu\n", static_cast<long>(next - last), static_cast<unsigned long>(next));
  say(line);
  _exit(0);
}
