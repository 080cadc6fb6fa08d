// SPDX-License-Identifier: MIT
// summary.h: what each layer did, for people and as JSON.
#pragma once

#include "engine/freeway/heap.h"

namespace freeway {

void write_summary(Heap& owner, int fd);
void write_summary_json(Heap& owner, int fd);
// Does what FREEWAY_STATS asked for (at exit).
void write_requested_summary(Heap& owner);

}  // namespace freeway
