// SPDX-License-Identifier: MIT
// check.h: assertions at three prices.
//
//   FREEWAY_CHECK   always on: a false one would mean a corrupt heap
//   FREEWAY_DCHECK  on in debug builds (FREEWAY_CHECKS >= 1): cheap consistency
//   FREEWAY_XCHECK  on with FREEWAY_CHECKS >= 2: may walk structures
//
// A failed check names itself on fd 2 and aborts; it allocates nothing and takes no lock.
#pragma once

#include "base/compiler.h"

namespace freeway {
// Defined in os/report.cc (in tests: by the test).
[[noreturn]] FREEWAY_HIDDEN void check_failed(const char* condition, const char* file, int line);
}  // namespace freeway

#define FREEWAY_CHECK(condition)         \
  (FREEWAY_LIKELY(condition) ? (void)0 : \
   ::freeway::check_failed(#condition, __FILE_NAME__, __LINE__))

#ifndef FREEWAY_CHECKS
#define FREEWAY_CHECKS 0
#endif
#if FREEWAY_CHECKS >= 1
#define FREEWAY_DCHECK(condition) FREEWAY_CHECK(condition)
#else
#define FREEWAY_DCHECK(condition) ((void)sizeof(condition))
#endif
#if FREEWAY_CHECKS >= 2
#define FREEWAY_XCHECK(condition) FREEWAY_CHECK(condition)
#else
#define FREEWAY_XCHECK(condition) ((void)sizeof(condition))
#endif
