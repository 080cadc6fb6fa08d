// SPDX-License-Identifier: MIT
//
// stepping/os/machine.h: found before src/os/machine.h when the libraries of every_step_test.cc are compiled.
// Everything is the product's; only its steps call a function of the program's, if it has one: there the test stops a
// thread.
#pragma once

// The shipped Env under another name, since it is to be the base of the one that steps.
#define Machine ProductMachine
#include_next "os/machine.h"
#undef Machine

extern "C" __attribute__((weak, visibility("default"))) void stepping_at(const char* name, const char* file, int line);

namespace freeway {

struct Machine : ProductMachine {
  static void step(const char* name, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (stepping_at != nullptr) stepping_at(name, file, line);
  }
};

}  // namespace freeway
