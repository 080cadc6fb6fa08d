// SPDX-License-Identifier: MIT
// frame.h: return addresses on the stack, as the processor leaves them there.
#pragma once

#include "base/integers.h"

namespace freeway {

// The address in a return address as it lies on the stack: aarch64 may have signed it, in bits that addresses do not
// use.
inline u64 return_address(u64 word) {
#if defined(__aarch64__)
  register u64 x30 asm("x30") = word;
  asm("hint #7" : "+r"(x30));  // xpaclri; nothing on processors that sign nothing
  return x30;
#else
  return word;
#endif
}

}  // namespace freeway
