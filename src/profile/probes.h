// SPDX-License-Identifier: MIT
// probes.h: samples, as tracers see them (arch/probe.h).
//
//   otel_memory:alloc(block, bytes, weighted)    OpenTelemetry's contract: a block was sampled; it stands for
//                                                `weighted` bytes
//   otel_memory:free(block)                      a sampled block is freed
//   freeway:sample_alloc(block, bytes, tag)      the same, with the thread's tag
//   freeway:sample_free(block, bytes, age in ms)
//
// While a tracer listens there is a profile with the usual interval, unless the program has begun one: the next slow
// malloc begins it. Otherwise tracers cost nothing but the nop.
#pragma once

#include "base/integers.h"

namespace freeway::profile {

struct LiveBlock;

bool anybody_listens();
void tell_allocated(uptr block, std::size_t bytes, u64 interval, u64 tag);
void tell_freed(const LiveBlock& block, u64 now_ms);

}  // namespace freeway::profile
