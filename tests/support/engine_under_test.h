// SPDX-License-Identifier: MIT
//
// engine_under_test.h: which allocator malloc is in this test (cmake/FreewayTest.cmake, ENGINES). What runs with the
// papers' engines too and holds for the flagship alone asks, and says why.
#ifndef FREEWAY_TESTS_ENGINE_UNDER_TEST_H
#define FREEWAY_TESTS_ENGINE_UNDER_TEST_H

#include <cstdlib>
#include <cstring>

namespace freeway::test {

inline bool on_flagship() { return getenv("FREEWAY_TEST_ENGINE") == nullptr; }

// `name`: michael, lfmalloc, streamflow, hmalloc or nbbs.
inline bool on_engine(const char* name) { return !on_flagship() && strcmp(getenv("FREEWAY_TEST_ENGINE"), name) == 0; }

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_ENGINE_UNDER_TEST_H
