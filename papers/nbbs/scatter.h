// SPDX-License-Identifier: MIT
// scatter.h: a number that differs between threads, so that they begin to search at different nodes: the paper's process id.
#pragma once

#include "base/integers.h"

namespace freeway::nbbs {

u64 thread_hash();
void set_thread_hash(u64 number);

}  // namespace freeway::nbbs
