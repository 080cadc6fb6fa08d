// SPDX-License-Identifier: MIT
//
// check_failed.cc: a failed check of the templates ends the test, and death tests find its name in what is printed.
#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace freeway {

void check_failed(const char* condition, const char* file, int line) {
  fprintf(stderr, "check failed: %s, %s:%d\n", condition, file, line);
  abort();
}

}  // namespace freeway
