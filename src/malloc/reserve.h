// SPDX-License-Identifier: MIT
// reserve.h: memory made ready at start (reserve.cc).
#pragma once

#include "malloc/heap.h"

namespace freeway {

// Once: memory for so many bytes, resident from now on (FREEWAY_PREFAULT).
void prefault(Heap& heap, u64 bytes);

}  // namespace freeway
