// SPDX-License-Identifier: MIT
// library.c: a library that is loaded late, and keeps what it is given.
static void* volatile kept;
void library_keep(void* block) { kept = block; }
