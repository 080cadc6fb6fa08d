// SPDX-License-Identifier: MIT
//
// stopped.h: what is thrown where a test ends a thread for ever.
#ifndef FREEWAY_TESTS_UNIT_STOPPED_H
#define FREEWAY_TESTS_UNIT_STOPPED_H

namespace freeway::test {
struct Stopped {};
}  // namespace freeway::test

#endif  // FREEWAY_TESTS_UNIT_STOPPED_H
