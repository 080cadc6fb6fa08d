// SPDX-License-Identifier: MIT
//
// What is loaded with RTLD_DEEPBIND: it looks for functions in itself and its own libraries first, so in libc.
#include <stdlib.h>

void* plugin_make(size_t bytes) { return malloc(bytes); }
void* plugin_resize(void* block, size_t bytes) { return realloc(block, bytes); }
void plugin_drop(void* block) { free(block); }
void* plugin_address_of_free(void) { return (void*)free; }
