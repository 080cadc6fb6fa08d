// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "fuzzer.h"

namespace freeway::test {

uint64_t operations = 0;

void broken(const char* what) {
  dprintf(2, "fuzzer: a promise was broken: %s\n", what);
  abort();
}

}  // namespace freeway::test
