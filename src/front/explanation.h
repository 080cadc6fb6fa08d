// SPDX-License-Identifier: MIT
// explanation.h: what freeway_explain found, as text.
#pragma once

#include "base/integers.h"
#include "freeway/freeway.h"

namespace freeway {

// Writes one line to `fd`; of a guarded block, who made and freed it, too. Signal-safe; a full pipe may block it.
void write_explanation(int fd, const void* address, const freeway_explanation_t& found);

}  // namespace freeway
