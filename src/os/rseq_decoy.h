// SPDX-License-Identifier: MIT
// rseq_decoy.h: what restartable sections find where there is no struct rseq, or it is not to be used: a struct whose
// cpu_id says "not registered", and whose rseq_cs may be written. So no section tests for it.
#pragma once

#include "base/integers.h"

namespace freeway::process {

// The decoy's distance from the thread pointer, the same in all threads. Signal-safe.
i64 rseq_decoy_offset();

}  // namespace freeway::process
