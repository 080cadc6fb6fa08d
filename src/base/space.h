// SPDX-License-Identifier: MIT
// space.h: address space for a range that grows, and the kernel's answers when a piece of it is to be mapped. The
// functions come from the Env (os/vm.h).
#pragma once

#include "base/integers.h"

namespace freeway {

struct Space {
  uptr base = 0;          // 0: none
  bool reserved = false;  // mapped already, but not accessible; else merely chosen: others may map something there
  explicit operator bool() const { return base != 0; }
};

enum class Extended { kDone, kOccupied, kRefused };

}  // namespace freeway
