// SPDX-License-Identifier: MIT
//
// idle: a library that is preloaded without harm and has no malloc.
int idle_library(void) { return 0; }
