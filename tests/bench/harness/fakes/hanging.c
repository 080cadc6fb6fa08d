// SPDX-License-Identifier: MIT
//
// hanging: a malloc that does not return after some calls.
#include <unistd.h>

#include "forward.h"

void* malloc(size_t size) {
  static int calls;
  if (++calls > kGoodCalls)
    for (;;) pause();
  return __libc_malloc(size);
}
