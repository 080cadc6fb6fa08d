// SPDX-License-Identifier: MIT
#include "traced_library.h"

extern "C" int through_library(void (*function)(int), int argument) {
  function(argument);
  return argument + 1;
}
