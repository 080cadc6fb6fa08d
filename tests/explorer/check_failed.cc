// SPDX-License-Identifier: MIT
// check_failed.cc: a FREEWAY_CHECK that fails inside a model thread is a failure of that execution, with its trace.
#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway {

void check_failed(const char* condition, const char* file, int line) {
  static char text[512];
  std::snprintf(text, sizeof text, "check failed: %s (%s:%d)", condition, file, line);
  if (model::current_epoch() != 0) model::model_check(false, text);
  std::fprintf(stderr, "%s\n", text);
  std::abort();
}

}  // namespace freeway
