// SPDX-License-Identifier: MIT
//
// os/machine.h: found before src/os/machine.h: all is the product's, but its steps are places where something may
// happen, and the planted headers may ask whether their fault acts.
#pragma once

// The shipped Env under another name, since it is the base.
#define Machine ProductMachine
#include_next "os/machine.h"
#undef Machine

namespace freeway {

struct Machine : ProductMachine {
  static void step(const char* name) { sim_point(name); }
  static bool mutant(const char* name, const char* file = __builtin_FILE()) {
    return __builtin_expect(sim_fault != nullptr, 0) && sim_is_fault(name, file);
  }
};

}  // namespace freeway
