// SPDX-License-Identifier: MIT
// explanation.h: what freeway_explain found, as text.
#pragma once

#include "base/integers.h"
#include "freeway/freeway.h"

namespace freeway {

// Writes one line to `fd`; of a guarded block, who made and freed it, too. Signal-safe; a full pipe may block it.
void write_explanation(int fd, const void* address, const freeway_explanation_t& found);

namespace explanation {

inline void block(freeway_explanation_t& found, freeway_kind_t kind, freeway_state_t state, uptr begin, std::size_t size,
                  uptr address) {
  found.kind = kind;
  found.state = state;
  found.begin = reinterpret_cast<void*>(begin);
  found.size = size;
  found.offset = static_cast<ptrdiff_t>(address - begin);
}
inline void other(freeway_explanation_t& found, freeway_kind_t kind, const char* what) {
  found.kind = kind;
  found.what = what;
}

}  // namespace explanation
}  // namespace freeway
