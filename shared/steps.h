// SPDX-License-Identifier: MIT
// steps.h: two steps of which the first must have happened if the second has, for who cleans up after a death.
//
// Between a participant that is killed and whoever cleans up after it only the order of the program counts: what was
// executed is there, and nothing after it. So the compiler must keep to it, and the processor need not be told.
#pragma once

#include "base/compiler.h"

namespace freeway::shared {

template <class Env, class First, class Second> FREEWAY_INLINE void in_order(First&& first, Second&& second) {
  first();
  Env::fence_signal();
  second();
  Env::fence_signal();
}

}  // namespace freeway::shared
