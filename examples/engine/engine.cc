// SPDX-License-Identifier: MIT
// engine.cc: the heap of a process under the smallest engine.
#include "papers/yours/engine.h"

namespace freeway {

constinit Front<SelectedEngine> process_heap;

}  // namespace freeway
