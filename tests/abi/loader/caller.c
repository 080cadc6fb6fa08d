// SPDX-License-Identifier: MIT
//
// Loads libraries from its own place: its RUNPATH is $ORIGIN/hidden, which the program's is not.
#include <dlfcn.h>

void* caller_load(const char* name, int flags) {
  void* handle = dlopen(name, flags);
  __asm__ volatile("" : "+r"(handle));  // a call, no jump: this function is the caller
  return handle;
}
