// SPDX-License-Identifier: MIT
// harden.cc: the feature `harden`: FREEWAY_HARDEN=1, where neither the environment nor the program says otherwise.
#include "freeway/freeway.h"

extern "C" {
__attribute__((weak)) const char* freeway_options = "HARDEN=1";
}
