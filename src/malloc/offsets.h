// SPDX-License-Identifier: MIT
// offsets.h: the assembly's offsets, in bytes: a heap of the program's (OWN_); the forms of malloc (MALLOC_).
// Both processors have the same. Written by tests/whole/golden/offsets.py from malloc/offsets.cc, which says why.
#pragma once

#define MALLOC_COUNTED 1
#define MALLOC_CHECKED 2
#define OWN_IDS 8
#define OWN_SLAB_OF 1536
#define OWN_STRIP_BASE 26624
#define OWN_STRIP_NEXT 26632
#define OWN_STRIP_END 40
#define OWN_STRIP_KINDS 56
