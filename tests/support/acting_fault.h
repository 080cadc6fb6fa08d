// SPDX-License-Identifier: MIT
// acting_fault.h: which of the faults that are planted in headers acts in this process, if any
// (tests/mutants/matrix.py).
#pragma once

#include <cstdlib>
#include <cstring>

namespace freeway::test {

inline bool fault_acts(const char* name) {
  static const char* const acting = std::getenv("FREEWAY_FAULT");
  return acting != nullptr && std::strcmp(acting, name) == 0;
}

}  // namespace freeway::test
