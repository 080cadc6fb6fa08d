// SPDX-License-Identifier: MIT
// summary.h: what each layer did, for people and as JSON.
#pragma once

#include "engine/freeway/heap.h"

namespace freeway {

void write_summary(Heap& owner, int fd);
void write_summary_json(Heap& owner, int fd);
// At start, where a summary was asked for: keeps a second descriptor of fd 2, which many programs close before they end.
void prepare_summary();
// At exit: does what FREEWAY_STATS asked for.
void write_requested_summary(Heap& owner);

}  // namespace freeway
