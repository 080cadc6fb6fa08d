// SPDX-License-Identifier: MIT
// errors.h: pointers that no live block begins at: which kind they are, and the report.
#pragma once

#include "malloc/malloc.h"

namespace freeway {

// Reports what `function` was called with, and ends the process unless FREEWAY_ON_ERROR=report.
void bad(Fault fault, const char* function, const void* pointer, const void* caller);
// What an address, where no live block begins, is. Reads only our own maps.
Fault classify(uptr address, FrameInfo info);
// Frees a guarded block (harden/guarded.h), or reports it with its history.
void free_guarded(uptr address, const void* caller);
// Reports that a guarded block was overrun, which `caller` has freed.
void report_overrun(uptr address, const void* caller);

}  // namespace freeway
