// SPDX-License-Identifier: MIT
// lifetime.cc: the heap's part in the beginning and the end of the process.
#include "engine/selected.h"

// In case the process has not allocated before its constructors run, or the environment could not be read until now.
__attribute__((constructor)) static void freeway_start() { freeway::process_heap.start(); }
__attribute__((destructor)) static void freeway_finish() { freeway::process_heap.finish(); }
